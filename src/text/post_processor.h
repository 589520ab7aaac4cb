// The last stage of encoding: special tokens around the text, offsets without spaces
// (tokenizer.json: "post_processor"). For single texts; templates for pairs are not used.
#pragma once

#include "text/json_fields.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::detail {

/// A token, where it stands in the original text, and its string (which must outlive it).
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

  /// `original` is the text that the offsets refer to.
  virtual void apply(std::vector<EncodedToken>& tokens,
                     std::string_view original,
                     bool add_special_tokens) const = 0;
  virtual size_t added_tokens() const = 0;  ///< how many special tokens apply() adds
};

/// Throws c10::Error naming a type that we do not have.
std::unique_ptr<const PostProcessor> make_post_processor(const JsonFields& fields);

}  // namespace reprise::detail
