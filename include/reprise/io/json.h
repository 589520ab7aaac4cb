// JSON from untrusted files: size and depth are bounded, and errors name the file.
#pragma once

#include <reprise/export.h>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace reprise {

/// Keeps the order of keys, so that a file that is read and written again looks the same.
using Json = nlohmann::ordered_json;

struct JsonLimits {
  size_t max_bytes = size_t{256} << 20;
  size_t max_depth = 100;
  size_t max_values = SIZE_MAX;  ///< each takes up to 100 bytes, and as few as two in the text
};

/// Parses `text`. Throws c10::Error with `source`, line and column of the error. Refuses duplicate
/// keys, text that is too long, too deeply nested or of too many values, and text after the value.
REPRISE_API Json parse_json(std::string_view text,
                            const std::string& source,
                            const JsonLimits& limits = {});

/// Reads and parses a file.
REPRISE_API Json read_json(const std::filesystem::path& path, const JsonLimits& limits = {});

/// The text that write_json writes. Throws, naming `source`, if a string in it is not UTF-8.
REPRISE_API std::string json_text(const Json& json, const std::string& source);

/// Writes `json` atomically, indented by two spaces as transformers does, with a final newline.
REPRISE_API void write_json(const std::filesystem::path& path, const Json& json);

/// A description for messages: "a string", "an array", "null", ...
REPRISE_API std::string kind_of(const Json& value);

}  // namespace reprise
