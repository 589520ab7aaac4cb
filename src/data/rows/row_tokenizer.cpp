// RowTokenizer: checks the options once, then dispatches each row by objective.
#include <reprise/data/rows.h>

#include "data/rows/pair_rows.h"
#include "data/rows/row_encoder.h"
#include "data/rows/row_fields.h"
#include "data/rows/sft_rows.h"
#include "data/rows/step_rows.h"
#include "data/rows/unpaired_rows.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <utility>

namespace reprise {
namespace {

void check_known_keys(const RowOptions& options) {
  const std::vector<std::string>& roles = data::known_roles();
  for (const auto& [role, name] : options.keys) {
    TORCH_CHECK(std::find(roles.begin(), roles.end(), role) != roles.end(),
                "[rows] keys: there is no key \"",
                role,
                "\"; names can be given to: ",
                c10::Join(", ", roles));
    TORCH_CHECK(!name.empty(), "[rows] keys: \"", role, "\" has an empty name");
  }
}

/// Refuses an option that would be ignored, since the user expects it to work.
void check_has_effect(bool is_given, bool has_effect, const char* option, const RowOptions& all) {
  TORCH_CHECK(!is_given || has_effect,
              "[rows] ",
              option,
              " has no effect on ",
              to_string(all.objective),
              all.objective == Objective::Prm ? " with these options" : "",
              "; remove it");
}

void check_effects(const RowOptions& options) {
  const Objective objective = options.objective;
  TORCH_CHECK(objective != Objective::Ppo && objective != Objective::Grpo,
              "[rows] ",
              to_string(objective),
              " has prompts instead of rows: see open_prompts()");
  const bool is_sft = objective == Objective::Sft || objective == Objective::Kd;
  const bool is_prm = objective == Objective::Prm;
  const bool has_steps = is_prm && options.prm == PrmConvention::StepEnds;
  const bool has_placeholders = is_prm && options.prm == PrmConvention::Placeholders;
  check_has_effect(options.truncation == TruncationSide::KeepEnd,
                   is_sft || objective == Objective::Dpo,
                   "truncation at the start",
                   options);
  check_has_effect(options.drop_too_long, is_sft, "drop_too_long", options);
  check_has_effect(
      options.completion_only_loss.has_value(), is_sft, "completion_only_loss", options);
  check_has_effect(options.assistant_only_loss, is_sft, "assistant_only_loss", options);
  check_has_effect(options.trained_turns == TrainedTurns::Last,
                   options.assistant_only_loss,
                   "trained_turns without assistant_only_loss",
                   options);
  check_has_effect(options.train_on_last_step_only, has_steps, "train_on_last_step_only", options);
  check_has_effect(
      !options.placeholder_token.empty(), has_placeholders, "placeholder_token", options);
  check_has_effect(!options.reward_tokens.empty(), has_placeholders, "reward_tokens", options);
  check_has_effect(!options.input_template.empty(), !is_prm, "input_template", options);
}

void check_values(const data::RowEncoder& encoder) {
  const RowOptions& options = encoder.options();
  TORCH_CHECK(options.max_length >= 0,
              "[rows] max_length must be positive, or 0 for no limit; found ",
              options.max_length);
  const size_t hole = options.input_template.find("{}");
  TORCH_CHECK(options.input_template.empty() ||
                  (hole != std::string::npos &&
                   options.input_template.find("{}", hole + 2) == std::string::npos),
              "[rows] input_template must have {} once, where the prompt goes: ",
              options.input_template);
  if (options.objective == Objective::Prm && options.prm == PrmConvention::Placeholders) {
    TORCH_CHECK(!options.placeholder_token.empty(),
                "[rows] rows with placeholders need placeholder_token");
    encoder.single_token(options.placeholder_token, "[rows] placeholder_token");
    for (const std::string& token : options.reward_tokens) {
      encoder.single_token(token, "[rows] reward_tokens:");
    }
  }
}

}  // namespace

RowTokenizer::RowTokenizer(std::shared_ptr<const Tokenizer> tokenizer, RowOptions options) {
  TORCH_CHECK(tokenizer != nullptr, "[rows] there is no tokenizer");
  check_known_keys(options);
  check_effects(options);
  encoder_ = std::make_shared<const data::RowEncoder>(std::move(tokenizer), std::move(options));
  check_values(*encoder_);
}

const RowOptions& RowTokenizer::options() const {
  return encoder_->options();
}
const Tokenizer& RowTokenizer::tokenizer() const {
  return encoder_->tokenizer();
}

std::string RowTokenizer::describe(const Json& row) const {
  const RowOptions& all = options();
  const data::RowFields fields(row, all.keys);
  switch (all.objective) {
    case Objective::Sft:
    case Objective::Kd:
      return data::describe_sft(fields, all);
    case Objective::Dpo:
    case Objective::Rm:
      return data::read_pairs(fields, all, to_string(all.objective)).convention;
    case Objective::Kto:
      return data::describe_kto(fields, all);
    case Objective::Prm:
      return data::describe_prm(fields, all);
    case Objective::Ppo:
    case Objective::Grpo:
      break;  // refused by the constructor
  }
  TORCH_INTERNAL_ASSERT(false, "no such objective");
}

namespace {

TokenizedRow tokenize_fields(const data::RowFields& fields, const data::RowEncoder& encoder) {
  switch (encoder.options().objective) {
    case Objective::Sft:
    case Objective::Kd:
      return data::tokenize_sft(fields, encoder);
    case Objective::Dpo:
      return data::tokenize_dpo(fields, encoder);
    case Objective::Rm:
      return data::tokenize_rm(fields, encoder);
    case Objective::Kto:
      return data::tokenize_kto(fields, encoder);
    case Objective::Prm:
      return data::tokenize_prm(fields, encoder);
    case Objective::Ppo:
    case Objective::Grpo:
      break;  // refused by the constructor
  }
  TORCH_INTERNAL_ASSERT(false, "no such objective");
}

}  // namespace

TokenizedRow RowTokenizer::tokenize(const Json& row) const {
  return tokenize_fields(data::RowFields(row, options().keys), *encoder_);
}

}  // namespace reprise
