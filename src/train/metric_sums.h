// Metrics of micro-batches put together to those of a step.
#pragma once

#include <reprise/io/json.h>
#include <reprise/train/objective.h>
#include <reprise/train/world.h>

#include <map>
#include <string>
#include <vector>

namespace reprise {

class MetricSums {
 public:
  void add(const std::vector<Metric>& metrics);
  /// Weighted means over all processes, in the order in which they first came. `prefix` goes before
  /// each name.
  void write_to(Json& record, const World& world, const std::string& prefix = {}) const;

 private:
  std::vector<Metric> sums_;
};

}  // namespace reprise
