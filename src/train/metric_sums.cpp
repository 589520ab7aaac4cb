#include "train/metric_sums.h"

#include <algorithm>

namespace reprise {

void MetricSums::add(const std::vector<Metric>& metrics) {
  for (const auto& metric : metrics) {
    const auto known = std::find_if(
        sums_.begin(), sums_.end(), [&](const Metric& sum) { return sum.name == metric.name; });
    if (known == sums_.end()) {
      sums_.push_back(metric);
    } else {
      known->sum += metric.sum;
      known->weight += metric.weight;
    }
  }
}

void MetricSums::write_to(Json& record, const World& world, const std::string& prefix) const {
  for (const auto& metric : sums_) {
    const double weight = world.sum(metric.weight);
    if (weight > 0) {
      record[prefix + metric.name] = world.sum(metric.sum) / weight;
    }
  }
}

}  // namespace reprise
