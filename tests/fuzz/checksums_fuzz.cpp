// libFuzzer: checksums.json, a zero byte and a file, in the folder of a checkpoint. A list that is
// believed has the sum of the file's bytes, or does not name it; a file outside is never read.
#include "fuzzed_folder.h"

#include "io/checksums.h"

#include <reprise/io/json.h>

#include <c10/util/Exception.h>

#include <zlib.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>

namespace {

std::string sum_of(std::span<const uint8_t> bytes) {
  std::array<char, 9> text{};
  const auto sum = crc32_z(crc32_z(0, nullptr, 0), bytes.data(), bytes.size());
  std::snprintf(text.data(), text.size(), "%08x", static_cast<unsigned>(sum));
  return text.data();
}

/// So that the fuzzer finds sums that fit: SUM stands for that of the file.
std::string with_sum(std::span<const uint8_t> list, const std::string& sum) {
  std::string text(list.begin(), list.end());
  for (size_t at = text.find("SUM"); at != std::string::npos; at = text.find("SUM", at)) {
    text.replace(at, 3, sum);
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const reprise::testing::FuzzedFolder parent("checksums_fuzz");
  static const auto folder = parent.path() / "checkpoint-1";
  std::filesystem::create_directories(folder);
  const auto [list, file] = reprise::testing::parts_of<2>(std::span<const uint8_t>(data, size));
  const std::string text = with_sum(list, sum_of(file));
  parent.write("checkpoint-1/checksums.json",
               {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  parent.write("checkpoint-1/file", file);
  parent.write("outside", {});
  try {
    reprise::io::verify_checksums(folder, reprise::World::single());
  } catch (const c10::Error&) {
    return 0;
  }
  const reprise::Json json = reprise::parse_json(text, "fuzz");
  for (const auto& [name, listed] : json["files"].items()) {
    const auto expected = file.empty() ? reprise::Json::array() : reprise::Json{sum_of(file)};
    if (name == "file" &&
        (listed["bytes"] != file.size() || listed["crc32"].size() != expected.size())) {
      std::abort();
    }
    if (name.find("outside") != std::string::npos) {
      std::abort();
    }
  }
  return 0;
}
