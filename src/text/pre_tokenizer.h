// The second stage: cutting the text into pieces that the model tokenizes one by one
// (tokenizer.json: "pre_tokenizer").
#pragma once

#include "text/json_fields.h"
#include "text/pre_tokenized.h"

#include <memory>

namespace reprise::detail {

class PreTokenizer {
 public:
  PreTokenizer() = default;
  virtual ~PreTokenizer() = default;
  PreTokenizer(const PreTokenizer&) = delete;
  PreTokenizer& operator=(const PreTokenizer&) = delete;

  virtual void apply(PreTokenized& text) const = 0;
};

/// Throws c10::Error naming a type that we do not have.
std::unique_ptr<const PreTokenizer> make_pre_tokenizer(const JsonFields& fields);

/// When Metaspace puts its mark before a piece that does not begin with one.
enum class PrependScheme { Always, First, Never };
PrependScheme read_prepend_scheme(const JsonFields& fields);

/// The regular expression of GPT-2, by which ByteLevel splits.
const Regex& gpt2_regex();

}  // namespace reprise::detail
