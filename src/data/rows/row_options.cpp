// The names of objectives, and the options of rows as JSON, for the key of a cache.
#include <reprise/data/rows.h>

#include <c10/util/Exception.h>

#include <array>
#include <utility>

namespace reprise {

namespace {

constexpr std::array<std::pair<Objective, std::string_view>, 8> kObjectives = {{
    {Objective::Sft, "sft"},
    {Objective::Rm, "rm"},
    {Objective::Prm, "prm"},
    {Objective::Dpo, "dpo"},
    {Objective::Kto, "kto"},
    {Objective::Kd, "kd"},
    {Objective::Ppo, "ppo"},
    {Objective::Grpo, "grpo"},
}};

}  // namespace

std::string to_string(Objective objective) {
  for (const auto& [known, name] : kObjectives) {
    if (known == objective) {
      return std::string(name);
    }
  }
  TORCH_INTERNAL_ASSERT(false, "no such objective");
}

std::optional<Objective> parse_objective(std::string_view name) {
  for (const auto& [objective, known] : kObjectives) {
    if (known == name) {
      return objective;
    }
  }
  return std::nullopt;
}

Json RowOptions::to_json() const {
  Json json;
  json["objective"] = to_string(objective);
  json["max_length"] = max_length;
  json["truncation"] = truncation == TruncationSide::KeepStart ? "keep_start" : "keep_end";
  json["drop_too_long"] = drop_too_long;
  json["completion_only_loss"] = completion_only_loss ? Json(*completion_only_loss) : Json();
  json["assistant_only_loss"] = assistant_only_loss;
  json["trained_turns"] = trained_turns == TrainedTurns::All ? "all" : "last";
  json["prm"] = prm == PrmConvention::StepEnds ? "step_ends" : "placeholders";
  json["classes"] = classes;
  json["step_separator"] = step_separator;
  json["train_on_last_step_only"] = train_on_last_step_only;
  json["placeholder_token"] = placeholder_token;
  json["reward_tokens"] = reward_tokens;
  json["input_template"] = input_template;
  json["chat_template"] = chat_template;
  json["keys"] = keys;
  return json;
}

}  // namespace reprise
