// From a JSON row to tokenised examples, by the rules of the objective.
#pragma once

#include <reprise/data/example.h>
#include <reprise/export.h>
#include <reprise/io/json.h>
#include <reprise/text/tokenizer.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace reprise {

/// What training is for. Ppo and Grpo have prompts (data/prompts.h) instead of rows.
enum class Objective : uint8_t { Sft, Rm, Prm, Dpo, Kto, Kd, Ppo, Grpo };

/// "sft", "rm", ...
REPRISE_API std::string to_string(Objective objective);

enum class TruncationSide : uint8_t { KeepStart, KeepEnd };

/// Which of the assistant's turns are trained on, with assistant_only_loss.
enum class TrainedTurns : uint8_t { All, Last };

enum class PrmConvention : uint8_t {
  StepEnds,      ///< prompt, completions[], labels[]: the last token of each step has the class
  Placeholders,  ///< input with placeholder tokens, label[]: each placeholder has a reward token
};

struct RowOptions {
  Objective objective = Objective::Sft;
  /// In tokens, 0: no limit. sft, kd, dpo and prm are cut to it, and dropped where no label is left
  /// (dpo: where the prompt alone fills it); rm drops what is longer. kto drops by the prompt too,
  /// but leaves the cut to collate(), which needs whole completions to put behind other prompts.
  int64_t max_length = 1024;
  TruncationSide truncation = TruncationSide::KeepStart;  ///< KeepEnd: sft, kd and dpo only
  bool drop_too_long = false;  ///< sft, kd: drop what is longer instead of cutting it
  std::optional<bool> completion_only_loss = {};  ///< unset: yes for prompt + completion rows
  /// sft, kd, of chats: by the template's {% generation %}, or, where it has none, by what each of
  /// the assistant's turns adds to the rendered chat before it.
  bool assistant_only_loss = false;
  TrainedTurns trained_turns = TrainedTurns::All;
  PrmConvention prm = PrmConvention::StepEnds;
  int64_t classes = 2;  ///< step ends: labels are below it
  std::string step_separator = "\n";
  bool train_on_last_step_only = false;
  std::string placeholder_token = {};
  std::vector<std::string> reward_tokens = {};  ///< for labels that are probabilities: good, bad
  std::string input_template = {};  ///< "User: {}\nAssistant: ", around plain-text prompts
  std::string chat_template = {};   ///< replaces the tokenizer's
  /// Names of keys that differ from the usual: {"prompt": "question"}.
  std::map<std::string, std::string> keys = {};

  /// All of it, in a fixed order: part of the key that a cache is found by.
  REPRISE_API Json to_json() const;
};

/// What one row gave: usually one example. kto makes two of a pair, chosen before rejected, and a
/// row with `responses` gives one for each of its `pairs`.
struct TokenizedRow {
  std::vector<Example> examples;                ///< `place` is not filled in
  std::map<std::string, int64_t> dropped = {};  ///< examples that are not there, by reason
  /// What is unfortunate about the row, though it is taken: see RowTokenizer. Empty: nothing.
  std::string hint = {};
};

namespace detail {
class PassageEncoder;
}

/// Immutable; may be shared by threads.
///
/// Rows are read as TRL 1.16 reads them: completions start where prompt and prompt + completion,
/// each tokenised as a whole, differ; plain text is ended with EOS; chats are ended by their
/// template. If the prompt alone ends in other tokens than before the completion, the hint of the
/// row says so: the model will be asked to go on from tokens that it was not trained on.
class REPRISE_API RowTokenizer {
 public:
  /// Throws if options contradict each other or have no effect on this objective.
  RowTokenizer(std::shared_ptr<const Tokenizer> tokenizer, RowOptions options);

  /// Which convention a row follows, for the user: "prompt + completion, as chat". Throws if it is
  /// none that the objective takes, saying which keys are there and which were expected.
  std::string describe(const Json& row) const;

  /// Throws c10::Error saying what is wrong with the row. A convention other than the first row's
  /// is refused by the caller, who compares describe().
  TokenizedRow tokenize(const Json& row) const;

  const RowOptions& options() const;
  const Tokenizer& tokenizer() const;

 private:
  std::shared_ptr<const detail::PassageEncoder> encoder_;
};

/// A sequence as text, with what counts for the loss in [[double brackets]]; where the label is not
/// the token itself but a judgement of a step, it follows an arrow: [[\n -> 1]].
REPRISE_API std::string show_sequence(const Tokenizer& tokenizer, const TokenSequence& sequence);

}  // namespace reprise
