// The second stage of a tokenizer: splits the text into pieces that the model tokenizes separately
// (tokenizer.json: "pre_tokenizer").
#pragma once

#include "text/tokenizer/json_fields.h"
#include "text/tokenizer/pre_tokenized.h"

#include <functional>
#include <memory>
#include <vector>

namespace reprise::text {

/// Splits or rewrites every piece by itself, without looking at the others: a long text may pass
/// the steps in groups of pieces. run() uses the text up, and returns false if no more pieces are
/// wanted.
struct PreTokenizerStep {
  std::function<bool(PreTokenized& text, const PieceGroups& groups)> run;
  bool needs_origins = false;  ///< of the text that it gets
};

class PreTokenizer {
 public:
  PreTokenizer() = default;
  virtual ~PreTokenizer() = default;
  PreTokenizer(const PreTokenizer&) = delete;
  PreTokenizer& operator=(const PreTokenizer&) = delete;

  /// Appends the steps that it consists of. They refer to it.
  virtual void add_steps(std::vector<PreTokenizerStep>& steps) const = 0;
};

/// Throws c10::Error for an unsupported type.
std::unique_ptr<const PreTokenizer> make_pre_tokenizer(const JsonFields& fields);

/// Which pieces Metaspace prepends its mark to, if they do not begin with one.
enum class PrependScheme { Always, First, Never };
PrependScheme read_prepend_scheme(const JsonFields& fields);

/// GPT-2's regular expression, which ByteLevel splits with.
const Regex& gpt2_regex();

}  // namespace reprise::text
