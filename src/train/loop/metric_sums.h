// Combines the metrics of micro-batches to those of a step or an evaluation.
#pragma once

#include <reprise/dist/world.h>
#include <reprise/export.h>
#include <reprise/io/json.h>
#include <reprise/train/objective.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace reprise {

class REPRISE_API MetricSums {
 public:
  enum class Of : uint8_t { Step, Evaluation };

  explicit MetricSums(Of of = Of::Step) : of_(of) {}

  /// The metrics of the next micro-batch; none for a filler. Does not wait for the device.
  void add(const std::vector<Metric>& metrics);
  /// Writes the values over all processes (MetricMean) under `prefix` + name, in the order in which
  /// the names were first added; metrics without weight are left out. Waits for the device once. A
  /// collective, but processes may have different metrics, or none.
  void write_to(Json& record, const World& world, const std::string& prefix = {}) const;

  struct Part {
    Metric metric;
    int64_t micro_batch = 0;  // 0 for metrics that do not tell them apart
  };

 private:
  Of of_;
  int64_t micro_batches_ = 0;
  std::vector<Part> parts_;
};

}  // namespace reprise
