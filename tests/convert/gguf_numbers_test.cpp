// Numbers of a GGUF file that no model can have: refused by their key before a folder is made.
#include "io/gguf_bytes.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"

#include <reprise/convert/gguf.h>
#include <reprise/io/file.h>
#include <reprise/io/json.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

namespace reprise::testing {
namespace {

/// A file whose float32 of that key is another one.
std::string with_number(const std::string& bytes, const std::string& key, float value) {
  std::string changed = bytes;
  const std::string before = packed_string(key) + packed(uint32_t{6});
  const size_t at = changed.find(before);
  EXPECT_NE(at, std::string::npos) << key;
  return changed.replace(at + before.size(), sizeof(value), packed(value));
}

TEST(GgufNumbers, OutOfRangeAreRefusedAndLeaveNoFolder) {
  const std::string bytes = read_file(fixtures() / "io/bytelevel.gguf");
  const TemporaryFolder folder;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const std::pair<const char*, std::vector<float>> keys[] = {
      {"llama.attention.layer_norm_rms_epsilon", {kNan, kInfinity, -kInfinity, -1e-6F, 2.0F}},
      {"llama.rope.freq_base", {kNan, kInfinity, -kInfinity, 0.0F, -1.0F, 1e20F}}};
  for (const auto& [key, values] : keys) {
    for (const float value : values) {
      write_file(folder / "model.gguf", with_number(bytes, key, value));
      expect_error([&] { import_gguf(folder / "model.gguf", folder / "out"); }, key);
      EXPECT_FALSE(std::filesystem::exists(folder / "out")) << key << " " << value;
    }
  }
  write_file(folder / "model.gguf", with_number(bytes, keys[0].first, 1e-4F));
  import_gguf(folder / "model.gguf", folder / "out");
  EXPECT_EQ(read_json(folder / "out/config.json")["rms_norm_eps"], 1e-4);
}

}  // namespace
}  // namespace reprise::testing
