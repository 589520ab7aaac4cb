// Prompts for online training: what the policy answers, with all that rewards may ask about them.
//
// A prompt is tokenised when it is asked for. Until then its row waits as JSON text in a temporary
// file that has no name any more, whatever the data's format was: memory holds 24 bytes a row, and
// data files that change during a run change nothing.
#pragma once

#include <reprise/data/dataset.h>
#include <reprise/data/example.h>
#include <reprise/export.h>
#include <reprise/io/json.h>
#include <reprise/text/tokenizer.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace reprise {

struct Prompt {
  std::vector<int64_t> ids;  ///< never empty
  /// What the ids were made of, and what rewards see: the row's text in its input_template, or the
  /// chat as its template rendered it. Whole, even if the ids were cut.
  std::string text = {};
  std::vector<Json> messages = {};  ///< of a chat, with role and content; empty: it is text
  Json row = {};                    ///< every column, under the names of the file
  RowPlace place = {};
};

/// What becomes of a prompt that is longer than max_prompt_length.
enum class LongPrompts : uint8_t {
  Drop,     ///< and count it
  KeepEnd,  ///< keep its last tokens; what the tokenizer or the template put in front is lost
};

struct PromptOptions {
  int64_t max_prompt_length = 0;  ///< in tokens, with the template's; 0: no limit
  LongPrompts long_prompts = LongPrompts::Drop;
  std::string input_template = {};  ///< "User: {}\nAssistant: ", around plain-text prompts
  std::string chat_template = {};   ///< replaces the tokenizer's
  /// Names of keys that differ from the usual: {"prompt": "problem"}. A prompt is then looked for
  /// under the names given here only.
  std::map<std::string, std::string> keys = {};
  bool skip_bad_rows = false;
  /// Take the first rows only, those of a mixture from each file and again of what was drawn; -1:
  /// all.
  int64_t max_samples = -1;
  uint64_t seed = 42;  ///< of the mixture
};

struct PromptReport : DatasetReport {
  int64_t answers_cut_off = 0;    ///< rows whose "messages" ended with an assistant's turn
  int64_t prompts_shortened = 0;  ///< by LongPrompts::KeepEnd
};

/// Random access to prompts, also by several threads.
class REPRISE_API PromptSet {
 public:
  virtual ~PromptSet();
  virtual int64_t size() const = 0;
  virtual Prompt at(int64_t index) const = 0;
  /// The row of at(index), without tokenising its prompt.
  virtual Json row(int64_t index) const = 0;
  /// "data.jsonl:17", for messages.
  virtual std::string place_name(const RowPlace& place) const = 0;
  virtual const PromptReport& report() const = 0;
};

/// Rows have their prompt under "prompt", "messages", "input" or "question"; the first of these
/// that is there counts. It is text, a message or a list of messages; "messages" is no text, and
/// loses the assistant's turn at its end, since that is what the policy will write. Text gets the
/// tokenizer's special tokens, chats are rendered with add_generation_prompt and what the row has
/// as "tools" and "chat_template_kwargs": the ids are those of TRL 1.16's GRPO.
///
/// Every row is read and tokenised once, so that what is wrong with one shows before training.
/// Throws as open_dataset() does: naming file, line and reason for a bad row (unless
/// skip_bad_rows), for a file that is empty, for rows of mixed conventions, and if no prompt is
/// left, saying what was dropped and why.
REPRISE_API std::shared_ptr<const PromptSet> open_prompts(
    const std::vector<DataFile>& files,
    std::shared_ptr<const Tokenizer> tokenizer,
    const PromptOptions& options = {});

}  // namespace reprise
