#include "reprise/training/run/run_figures.h"

#include <optional>

namespace reprise::app {

namespace {

struct Named {
  const char* metric;
  const char* label;
  std::optional<int> decimals = {};
};

std::vector<Named> figures_of(Objective objective) {
  switch (objective) {
    case Objective::Rm:
      return {{"accuracy", "accuracy", 2}, {"margin", "margin"}};
    case Objective::Prm:
      return {{"accuracy", "accuracy", 2}};
    case Objective::Dpo:
      return {{"rewards/accuracies", "accuracy", 2}, {"rewards/margins", "margin"}};
    case Objective::Kto:
      return {{"rewards/margins", "margin"}, {"kl", "kl"}};
    case Objective::Kd:
      return {{"kd_loss", "kd loss"}, {"mean_token_accuracy", "accuracy", 2}};
    case Objective::Grpo:
    case Objective::Ppo:
      return {{"reward", "reward"}, {"completions/mean_length", "length", 0}};
    case Objective::Sft:
      break;
  }
  return {{"mean_token_accuracy", "accuracy", 2}};
}

}  // namespace

std::vector<ProgressFigure> RunFigures::of(const Json& record) {
  std::vector<ProgressFigure> figures;
  for (const Named& each : figures_of(objective_)) {
    const auto found = record.find(each.metric);
    if (found != record.end() && found->is_number()) {
      last_[each.metric] = found->get<double>();
    }
    const auto last = last_.find(each.metric);
    if (last != last_.end()) {
      figures.push_back({each.label, last->second, each.decimals});
    }
  }
  return figures;
}

}  // namespace reprise::app
