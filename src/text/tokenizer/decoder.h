// Tokens back to text (tokenizer.json: "decoder").
#pragma once

#include "text/tokenizer/json_fields.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace reprise::text {

class Decoder {
 public:
  Decoder() = default;
  virtual ~Decoder() = default;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  /// Rewrites the tokens so that their concatenation is the text. Throws c10::Error if it exceeds
  /// NormalizedString::max_bytes.
  void apply(std::vector<std::string>& tokens) const;

  /// The same as one step of a Sequence; `original` is the size of the tokens before its first
  /// step.
  virtual void rewrite(std::vector<std::string>& tokens, size_t original) const = 0;
};

/// Throws c10::Error for an unsupported type.
std::unique_ptr<const Decoder> make_decoder(const JsonFields& fields);

}  // namespace reprise::text
