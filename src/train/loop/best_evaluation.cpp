#include "train/loop/best_evaluation.h"

#include <c10/util/Exception.h>

#include <cmath>
#include <string>

namespace reprise {

namespace {

std::string names_in(const Json& evaluation) {
  std::string names;
  for (const auto& [name, value] : evaluation.items()) {
    if (name.starts_with("eval_") && value.is_number()) {
      names += (names.empty() ? "" : ", ") + name;
    }
  }
  return names;
}

}  // namespace

bool update_best(RunState& state, const Json& evaluation, const TrainerOptions& options) {
  const auto found = evaluation.find(options.best_metric);
  TORCH_CHECK(found != evaluation.end() && found->is_number(),
              "[train] `metric_for_best_model` ",
              options.best_metric,
              ": no such metric; an evaluation gives ",
              names_in(evaluation));
  const auto value = found->get<double>();
  // Comparisons with NaN are false: as the first best value it could never be beaten.
  const bool is_better =
      !std::isnan(value) &&
      (!state.best_value ||
       (options.greater_is_better ? value > *state.best_value : value < *state.best_value));
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
