// The second stage of a tokenizer: splits the text into pieces that the model tokenizes separately
// (tokenizer.json: "pre_tokenizer").
#pragma once

#include "text/tokenizer/json_fields.h"
#include "text/tokenizer/pre_tokenized.h"

#include <memory>

namespace reprise::text {

class PreTokenizer {
 public:
  PreTokenizer() = default;
  virtual ~PreTokenizer() = default;
  PreTokenizer(const PreTokenizer&) = delete;
  PreTokenizer& operator=(const PreTokenizer&) = delete;

  virtual void apply(PreTokenized& text) const = 0;
};

/// Throws c10::Error for an unsupported type.
std::unique_ptr<const PreTokenizer> make_pre_tokenizer(const JsonFields& fields);

/// Which pieces Metaspace prepends its mark to, if they do not begin with one.
enum class PrependScheme { Always, First, Never };
PrependScheme read_prepend_scheme(const JsonFields& fields);

/// GPT-2's regular expression, which ByteLevel splits with.
const Regex& gpt2_regex();

}  // namespace reprise::text
