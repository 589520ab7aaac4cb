// From tokens back to text (tokenizer.json: "decoder").
#pragma once

#include "text/json_fields.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace reprise::detail {

class Decoder {
 public:
  Decoder() = default;
  virtual ~Decoder() = default;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  /// Rewrites the tokens; joined, they are the text. Throws c10::Error if the rules multiply it
  /// beyond what AlignedText::most_bytes allows.
  void apply(std::vector<std::string>& tokens) const;

  /// The same as a part of others; `original` is the size of the tokens before the first of them.
  virtual void rewrite(std::vector<std::string>& tokens, size_t original) const = 0;
};

/// Throws c10::Error naming a type that we do not have.
std::unique_ptr<const Decoder> make_decoder(const JsonFields& fields);

}  // namespace reprise::detail
