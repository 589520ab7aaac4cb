// The last stage of encoding: adds special tokens around the text and trims spaces from offsets
// (tokenizer.json: "post_processor"). For single texts only; templates for pairs are ignored.
#pragma once

#include "text/tokenizer/json_fields.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::text {

/// A token, its offsets in the original text, and its string (which must outlive it).
struct EncodedToken {
  int64_t id;
  std::pair<size_t, size_t> offsets;
  std::string_view text;
};

class PostProcessor {
 public:
  PostProcessor() = default;
  virtual ~PostProcessor() = default;
  PostProcessor(const PostProcessor&) = delete;
  PostProcessor& operator=(const PostProcessor&) = delete;

  /// The offsets of the tokens refer to `original`.
  virtual void apply(std::vector<EncodedToken>& tokens,
                     std::string_view original,
                     bool add_special_tokens) const = 0;
  virtual size_t added_tokens() const = 0;  ///< how many special tokens apply() adds
};

/// Throws c10::Error for an unsupported type.
std::unique_ptr<const PostProcessor> make_post_processor(const JsonFields& fields);

}  // namespace reprise::text
