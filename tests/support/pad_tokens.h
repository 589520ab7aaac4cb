// The score model of tests/fixtures/training, with other pad tokens in its files.
#pragma once

#include "support/fixtures.h"

#include <reprise/io/json.h>

#include <filesystem>

namespace reprise::testing {

inline constexpr int64_t kPadToken = 0;  ///< "<|endoftext|>"
inline constexpr int64_t kEndToken = 2;  ///< "<|im_end|>"

/// A copy of the model's folder in which config.json and tokenizer_config.json name these pads: an
/// id and a token; null: none.
inline void copy_score_model(const std::filesystem::path& folder,
                             const Json& config_pad,
                             const Json& tokenizer_pad) {
  std::filesystem::copy(fixtures() / "training" / "models" / "score", folder);
  const auto change = [&](const char* file, const char* key, const Json& value) {
    Json fields = read_json(folder / file);
    fields.erase(key);
    if (!value.is_null()) {
      fields[key] = value;
    }
    std::filesystem::remove(folder / file);
    write_json(folder / file, fields);
  };
  change("config.json", "pad_token_id", config_pad);
  change("tokenizer_config.json", "pad_token", tokenizer_pad);
}

}  // namespace reprise::testing
