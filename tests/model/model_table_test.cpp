// The config.json of the models that are used most: opened, or refused with the reason, as
// docs/model-table.md says.
#include "support/bitwise.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"

#include <reprise/io/file.h>
#include <reprise/io/json.h>
#include <reprise/model/config.h>

#include <gtest/gtest.h>

#include <string>

namespace reprise {
namespace {

using testing::contains;

Json rows() {
  return read_json(testing::fixtures() / "model_table.json");
}

TEST(ModelTable, EveryModelIsOpenedOrRefusedAsItSays) {
  const testing::TemporaryFolder folder;
  size_t opened = 0;
  for (const Json& row : rows()) {
    SCOPED_TRACE(row["model"].get<std::string>());
    write_json(folder / "config.json", row["config"]);
    const auto read = [&](ModelPart part) { return ModelConfig::read(folder.path(), part); };
    if (row.contains("refused")) {
      const auto message = testing::message_of<c10::Error>([&] { read(ModelPart::Whole); });
      EXPECT_TRUE(contains(message, "model_type: expected one of")) << message;
      EXPECT_TRUE(contains(message, "The nearest family is ")) << message;
      EXPECT_TRUE(contains(message, row["refused"].get<std::string>())) << message;
      continue;
    }
    const bool text_only = row.contains("text_only");
    if (text_only) {
      const auto message = testing::message_of<c10::Error>([&] { read(ModelPart::Whole); });
      EXPECT_TRUE(contains(message, "Give --text_only")) << message;
    }
    const ModelConfig config = read(text_only ? ModelPart::Text : ModelPart::Whole);
    EXPECT_TRUE(config.warnings.empty()) << config.warnings.front();
    EXPECT_GT(config.layers, 0);
    ++opened;
  }
  EXPECT_GE(opened, 40U);
}

TEST(ModelTable, IsInTheDocuments) {
  const std::string page = read_file(testing::fixtures() / "../../docs/model-table.md");
  for (const Json& row : rows()) {
    const std::string start = "| " + row["model"].get<std::string>() + " | `" +
                              row["config"]["model_type"].get<std::string>() + "` | ";
    const size_t line = page.find(start);
    ASSERT_NE(line, std::string::npos) << start << ": run tools/model_table.py";
    const std::string result =
        page.substr(line + start.size(), page.find('\n', line) - line - start.size());
    EXPECT_EQ(contains(result, "refused"), row.contains("refused")) << start;
    EXPECT_EQ(contains(result, "--text_only"), row.contains("text_only")) << start;
  }
}

}  // namespace
}  // namespace reprise
