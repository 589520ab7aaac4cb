// Turns JSON rows into tokenised examples, by the rules of the training objective.
#pragma once

#include <reprise/data/example.h>
#include <reprise/data/length_report.h>
#include <reprise/export.h>
#include <reprise/io/json.h>
#include <reprise/text/tokenizer.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {

/// What training is for. Ppo and Grpo have prompts (data/prompts.h) instead of rows.
enum class Objective : uint8_t { Sft, Rm, Prm, Dpo, Kto, Kd, Ppo, Grpo };

/// "sft", "rm", ...
REPRISE_API std::string to_string(Objective objective);
/// The objective of that name; std::nullopt if there is none.
REPRISE_API std::optional<Objective> parse_objective(std::string_view name);

enum class TruncationSide : uint8_t { KeepStart, KeepEnd };

/// Which assistant turns are trained on, with assistant_only_loss.
enum class TrainedTurns : uint8_t { All, Last };

enum class PrmConvention : uint8_t {
  StepEnds,      ///< prompt, completions[], labels[]: the last token of each step has the class
  Placeholders,  ///< input with placeholder tokens, label[]: each placeholder has a reward token
};

struct RowOptions {
  Objective objective = Objective::Sft;
  /// In tokens; 0: no limit. sft, kd, dpo and prm truncate longer rows, and drop those left without
  /// a label (dpo: those whose prompt alone fills max_length). rm drops longer rows. kto drops by
  /// prompt as dpo does, but leaves truncation to collate(), which needs whole completions to pair
  /// them with other prompts.
  int64_t max_length = 1024;
  TruncationSide truncation = TruncationSide::KeepStart;  ///< KeepEnd: sft, kd and dpo only
  bool drop_too_long = false;  ///< sft, kd: drop longer rows instead of truncating them
  std::optional<bool> completion_only_loss =
      {};  ///< unset: true for rows with prompt and completion
  /// sft, kd, chats only: train on assistant turns only. They are found by {% generation %} in the
  /// chat template or, if it has none, as what each turn adds to the chat rendered so far.
  bool assistant_only_loss = false;
  TrainedTurns trained_turns = TrainedTurns::All;
  PrmConvention prm = PrmConvention::StepEnds;
  int64_t classes = 2;  ///< StepEnds: labels are in [0, classes)
  std::string step_separator = "\n";
  bool train_on_last_step_only = false;
  std::string placeholder_token = {};
  std::vector<std::string> reward_tokens = {};  ///< good, then bad, if labels are probabilities
  std::string input_template = {};  ///< around plain-text prompts: "User: {}\nAssistant: "
  std::string chat_template = {};   ///< replaces the tokenizer's
  /// Names of columns that differ from the usual ones: {"prompt": "question"}.
  std::map<std::string, std::string> keys = {};

  /// All options in a fixed order; part of the cache key.
  REPRISE_API Json to_json() const;
};

/// The result of one row: usually one example. kto makes two of a pair, chosen before rejected. A
/// row with `responses` gives one example for each of its `pairs`.
struct TokenizedRow {
  std::vector<Example> examples;                ///< `location` is not filled in
  std::map<std::string, int64_t> dropped = {};  ///< number of examples dropped, by reason
  std::vector<ExampleLength> lengths = {};      ///< of all examples, also those dropped
  /// A warning about a row that is used nevertheless, see RowTokenizer. Empty: none.
  std::string hint = {};
  /// rm: a sequence ends with the tokenizer's pad token, see reward_pad_id() (train/rm.h).
  bool ends_with_pad = false;
};

namespace data {
class RowEncoder;
}

/// Immutable; may be shared by threads.
///
/// Rows are read as in TRL 1.16. The completion starts where the tokens of the prompt alone and of
/// prompt + completion, each tokenised as a whole, first differ. Plain text ends with EOS; chats
/// end as their template ends them. If the prompt alone ends in different tokens than it does
/// before the completion, the row gets a hint: at inference the model would continue from tokens
/// that it was not trained on.
class REPRISE_API RowTokenizer {
 public:
  /// Throws if options contradict each other or have no effect on this objective.
  RowTokenizer(std::shared_ptr<const Tokenizer> tokenizer, RowOptions options);

  /// The convention that a row follows, for the user: "prompt + completion, as chat". Throws if the
  /// objective accepts no such row, with the keys found and the keys expected.
  std::string describe(const Json& row) const;

  /// Throws c10::Error with what is wrong with the row. That all rows follow one convention is for
  /// the caller to check, by comparing describe().
  TokenizedRow tokenize(const Json& row) const;

  const RowOptions& options() const;
  const Tokenizer& tokenizer() const;

 private:
  std::shared_ptr<const data::RowEncoder> encoder_;
};

/// A sequence as text, with the trained tokens in [[double brackets]]. A label that differs from
/// its token (a class or reward of a step) follows an arrow: [[\n -> 1]].
REPRISE_API std::string sequence_preview(const Tokenizer& tokenizer, const TokenSequence& sequence);

}  // namespace reprise
