#include "train/best_evaluation.h"

#include <c10/util/Exception.h>

#include <string>

namespace reprise {

namespace {

std::string names_in(const Json& evaluation) {
  std::string names;
  for (const auto& [name, value] : evaluation.items()) {
    if (name.starts_with("eval_")) {
      names += (names.empty() ? "" : ", ") + name;
    }
  }
  return names;
}

}  // namespace

bool update_best(RunState& state, const Json& evaluation, const TrainerOptions& options) {
  TORCH_CHECK(evaluation.contains(options.best_metric),
              "[train] --metric_for_best_model ",
              options.best_metric,
              ": no such metric; an evaluation gives ",
              names_in(evaluation));
  const double value = evaluation[options.best_metric].get<double>();
  const bool is_better =
      !state.best_value ||
      (options.greater_is_better ? value > *state.best_value : value < *state.best_value);
  if (!is_better) {
    ++state.evaluations_without_best;
    return false;
  }
  state.best_value = value;
  state.best_step = state.step;
  state.evaluations_without_best = 0;
  return true;
}

}  // namespace reprise
