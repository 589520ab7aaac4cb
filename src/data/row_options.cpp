// The options of rows as JSON, for the key of a cache.
#include <reprise/data/rows.h>

#include <c10/util/Exception.h>

namespace reprise {

std::string to_string(Objective objective) {
  switch (objective) {
    case Objective::Sft:
      return "sft";
    case Objective::Rm:
      return "rm";
    case Objective::Prm:
      return "prm";
    case Objective::Dpo:
      return "dpo";
    case Objective::Kto:
      return "kto";
    case Objective::Kd:
      return "kd";
    case Objective::Ppo:
      return "ppo";
    case Objective::Grpo:
      return "grpo";
  }
  TORCH_INTERNAL_ASSERT(false, "no such objective");
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
