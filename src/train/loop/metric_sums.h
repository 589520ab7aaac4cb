// Combines the metrics of micro-batches to those of a step.
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
  /// Does not wait for the device.
  void add(const std::vector<Metric>& metrics);
  /// Writes weighted means over all processes under `prefix` + name, in the order in which the
  /// names were first added; metrics without weight are left out. Waits for the device once. A
  /// collective, but processes may have different metrics, or none.
  void write_to(Json& record, const World& world, const std::string& prefix = {}) const;

 private:
  std::vector<Metric> sums_;
};

}  // namespace reprise
