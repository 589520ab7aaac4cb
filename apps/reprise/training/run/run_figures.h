// The figures by which an objective is followed, besides the loss.
#pragma once

#include "reprise/training/flags/flags.h"

#include <reprise/io/json.h>
#include <reprise/report/progress_text.h>

#include <map>
#include <string>
#include <vector>

namespace reprise::app {

/// Two figures of each step. One that a step does not have (rewards, between generations) keeps its
/// last value.
class RunFigures {
 public:
  explicit RunFigures(Objective objective) : objective_(objective) {}
  std::vector<ProgressFigure> of(const Json& record);

 private:
  Objective objective_;
  std::map<std::string, double> last_;
};

}  // namespace reprise::app
