#include "train/metric_sums.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace reprise {

void MetricSums::add(const std::vector<Figure>& figures) {
  for (const auto& figure : figures) {
    const Figure wide{figure.name, figure.sum.to(at::kDouble), figure.weight.to(at::kDouble)};
    const auto known = std::find_if(
        sums_.begin(), sums_.end(), [&](const Figure& sum) { return sum.name == wide.name; });
    if (known == sums_.end()) {
      sums_.push_back(wide);
    } else {
      known->sum = known->sum + wide.sum;
      known->weight = known->weight + wide.weight;
    }
  }
}

void MetricSums::write_to(Json& record, const World& world, const std::string& prefix) const {
  if (sums_.empty()) {
    return;
  }
  // Weights that were counted on the host would need a device each; sums are where the loss was.
  const auto device = sums_.front().sum.device();
  std::vector<at::Tensor> numbers;
  for (const auto& figure : sums_) {
    numbers.push_back(figure.sum.to(device));
    numbers.push_back(figure.weight.to(device));
  }
  const auto totals = world.sum(at::stack(numbers)).cpu();
  const auto* values = totals.const_data_ptr<double>();
  for (size_t i = 0; i < sums_.size(); ++i) {
    if (const double weight = values[2 * i + 1]; weight > 0) {
      record[prefix + sums_[i].name] = values[2 * i] / weight;
    }
  }
}

}  // namespace reprise
