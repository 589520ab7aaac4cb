// config.json and adapter_config.json with every field replaced by values that it should not have:
// each is read, or refused with the file's name, and none ends in an error of a library.
#include "model/lora_case.h"
#include "support/temporary_folder.h"

#include <reprise/io/file.h>
#include <reprise/model/config.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

namespace reprise {
namespace {

namespace fs = std::filesystem;

const std::vector<Json>& odd_values() {
  static const std::vector<Json> values = {nullptr,
                                           true,
                                           -1,
                                           0,
                                           7,
                                           1.5,
                                           -1e-300,
                                           1e308,
                                           uint64_t{18446744073709551615U},
                                           "",
                                           "x",
                                           "(",
                                           "*",
                                           Json::array(),
                                           Json::array({nullptr}),
                                           Json::array({"x", 1}),
                                           Json::array({Json::array()}),
                                           Json::object(),
                                           Json{{"a", 1}},
                                           Json{{"(", 1}},
                                           Json{{"a", Json::object()}}};
  return values;
}

/// The object with one of its fields changed, for each field and odd value.
void for_each_change(const Json& json,
                     const std::function<void(const Json&, const std::string&)>& look) {
  for (const auto& [name, ignored] : json.items()) {
    for (const Json& odd : odd_values()) {
      Json changed = json;
      changed[name] = odd;
      look(changed, name + " = " + odd.dump());
    }
  }
}

/// The message of the error; "" if there is none. Any other kind of exception is a failure.
std::string own_error(const std::function<void()>& work, const std::string& what) {
  try {
    work();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    ADD_FAILURE() << what << ": " << error.what();
  }
  return "";
}

TEST(OddFields, OfAConfigAreReadOrRefusedByName) {
  for (const char* name : {"llama3_rope",
                           "llama_yarn_rope",
                           "llama_longrope",
                           "qwen3",
                           "gpt2",
                           "chatglm2",
                           "falcon",
                           "opt_post_norm",
                           "gpt_neo"}) {
    const Json config = read_json(testing::fixtures() / "models" / name / "config.json");
    int64_t refused = 0;
    for_each_change(config, [&](const Json& changed, const std::string& what) {
      const auto message =
          own_error([&] { ModelConfig::from_json(changed, "a/config.json"); }, what);
      refused += message.empty() ? 0 : 1;
      EXPECT_TRUE(message.empty() || message.find("a/config.json") != std::string::npos) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    });
    EXPECT_GT(refused, 100) << name;
  }
}

TEST(OddFields, OfAnAdapterAreReadOrRefused) {
  for (const char* name : {"llama_qv", "llama_regex"}) {
    const auto source = testing::fixtures() / "adapters" / name;
    const testing::TemporaryFolder folder;
    fs::copy(source / "adapter_model.safetensors", folder / "adapter_model.safetensors");
    int64_t refused = 0;
    std::shared_ptr<Model> model;
    for_each_change(
        read_json(source / "adapter_config.json"),
        [&](const Json& changed, const std::string& what) {
          std::ofstream(folder / "adapter_config.json") << changed.dump();  // not synced
          if (model == nullptr || has_lora(*model)) {
            model = testing::open_model("llama");
          }
          const auto message = own_error([&] { load_adapter(*model, folder.path()); }, what);
          refused += message.empty() ? 0 : 1;
          EXPECT_EQ(has_lora(*model), message.empty()) << what;
          EXPECT_EQ(message.find('\n'), std::string::npos) << message;
        });
    EXPECT_GT(refused, 100) << name;
  }
}

TEST(OddFields, NumbersOutOfRangeAreRefused) {
  const Json config = read_json(testing::fixtures() / "models" / "llama" / "config.json");
  const auto refusal = [&](const std::string& name, const Json& value) {
    Json changed = config;
    changed[name] = value;
    return own_error([&] { ModelConfig::from_json(changed, "config.json"); }, name);
  };
  const std::pair<const char*, std::vector<Json>> refused[] = {
      {"rms_norm_eps", {nullptr, -1e-9, 1.5, 1e308, "1e-5"}},
      {"rope_theta", {0, -1, 1e20, 1e308}},
      {"initializer_range", {-0.1, 1e308, nullptr}},
      {"attention_dropout", {-0.1, 1, 2}},
      {"hidden_size", {0, -4, 1.5, 1e308}},
      {"num_hidden_layers", {0, 1 << 20}}};
  for (const auto& [name, values] : refused) {
    for (const Json& value : values) {
      const auto message = refusal(name, value);
      EXPECT_NE(message.find(std::string(name) == "attention_dropout" ? "attention dropout" : name),
                std::string::npos)
          << name << " " << value << ": " << message;
    }
  }
  EXPECT_EQ(refusal("rms_norm_eps", 0), "");
  EXPECT_EQ(refusal("rope_theta", 5e6), "");
  Json huge = config;
  huge["hidden_size"] = huge["intermediate_size"] = huge["vocab_size"] = 1 << 27;
  EXPECT_NE(own_error([&] { ModelConfig::from_json(huge, "config.json"); }, "")
                .find("parameters; expected at most"),
            std::string::npos);
}

}  // namespace
}  // namespace reprise
