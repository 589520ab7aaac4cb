// Metrics of micro-batches put together to those of a step.
#pragma once

#include <reprise/io/json.h>
#include <reprise/train/objective.h>
#include <reprise/dist/world.h>

#include <string>
#include <vector>

namespace reprise {

class MetricSums {
 public:
  /// Keeps what is on a device there.
  void add(const std::vector<Figure>& figures);
  /// Weighted means over all processes, in the order in which they first came; what weighs nothing
  /// is left out. `prefix` goes before each name. Waits for the device once.
  void write_to(Json& record, const World& world, const std::string& prefix = {}) const;

 private:
  std::vector<Figure> sums_;
};

}  // namespace reprise
