// Metrics of micro-batches put together to those of a step.
#pragma once

#include <reprise/dist/world.h>
#include <reprise/export.h>
#include <reprise/io/json.h>
#include <reprise/train/objective.h>

#include <string>
#include <vector>

namespace reprise {

class REPRISE_API MetricSums {
 public:
  /// Keeps what is on a device there.
  void add(const std::vector<Figure>& figures);
  /// Weighted means over all processes, in the order in which they first came; what weighs nothing
  /// is left out. `prefix` goes before each name. Waits for the device once. A collective: it does
  /// not matter if a process has other figures than the next, or none.
  void write_to(Json& record, const World& world, const std::string& prefix = {}) const;

 private:
  std::vector<Figure> sums_;
};

}  // namespace reprise
