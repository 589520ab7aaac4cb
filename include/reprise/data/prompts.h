// Prompts for online training: what the policy completes, with the columns that rewards may use.
//
// A prompt is tokenised when it is requested. Until then its row waits as JSON text in an unlinked
// temporary file, whatever format the data had. Memory holds 24 bytes per row, and changes to the
// data files during a run have no effect.
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
  /// The text that was tokenised, which rewards see: the row's text inside input_template, or the
  /// rendered chat. Complete even if the ids were truncated.
  std::string text = {};
  std::vector<Json> messages = {};  ///< of a chat, with role and content; empty for plain text
  Json row = {};                    ///< all columns, under their names in the file
  RowLocation location = {};
};

/// What to do with a prompt longer than max_prompt_length.
enum class LongPrompts : uint8_t {
  Drop,     ///< drop and count it
  KeepEnd,  ///< keep its last tokens; leading special tokens and template text are lost
};

struct PromptOptions {
  int64_t max_prompt_length = 0;  ///< in tokens, including those of the template; 0: no limit
  LongPrompts long_prompts = LongPrompts::Drop;
  std::string input_template = {};  ///< around plain-text prompts: "User: {}\nAssistant: "
  std::string chat_template = {};   ///< replaces the tokenizer's
  /// Names of columns that differ from the usual ones: {"prompt": "problem"}. If a prompt column is
  /// named here, the prompt is taken from no other.
  std::map<std::string, std::string> keys = {};
  bool skip_bad_rows = false;
  /// Uses only the first rows; -1: all. In a mixture the limit applies to each file, and again to
  /// the prompts drawn.
  int64_t max_samples = -1;
  uint64_t seed = 42;  ///< for the mixture
};

struct PromptReport : DatasetReport {
  int64_t answers_cut_off = 0;    ///< rows whose "messages" ended with an assistant turn
  int64_t prompts_shortened = 0;  ///< by LongPrompts::KeepEnd
};

/// Random access to prompts; safe for concurrent use.
class REPRISE_API PromptSet {
 public:
  virtual ~PromptSet();
  virtual int64_t size() const = 0;
  virtual Prompt at(int64_t index) const = 0;
  /// The row of at(index), without tokenising its prompt.
  virtual Json row(int64_t index) const = 0;
  /// "data.jsonl:17", for error messages.
  virtual std::string location_name(const RowLocation& location) const = 0;
  virtual const PromptReport& report() const = 0;
};

/// The prompt of a row is the first of its columns "prompt", "messages", "input" and "question"
/// that is present. It is a text, a message or a list of messages. "messages" must be a list; an
/// assistant turn at its end is removed, since the policy will write that turn. Text gets the
/// tokenizer's special tokens. Chats are rendered with add_generation_prompt and the row's "tools"
/// and "chat_template_kwargs". The ids equal those of GRPO in TRL 1.16.
///
/// Every row is read and tokenised once here, so that errors show before training. Throws like
/// open_dataset(): with file, line and reason for a bad row (unless skip_bad_rows), for an empty
/// file and for rows that follow different conventions; and, with the reasons, if no prompt is
/// left.
REPRISE_API std::shared_ptr<const PromptSet> open_prompts(
    const std::vector<DataFile>& files,
    std::shared_ptr<const Tokenizer> tokenizer,
    const PromptOptions& options = {});

}  // namespace reprise
