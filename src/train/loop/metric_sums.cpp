#include "train/loop/metric_sums.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace reprise {

void MetricSums::add(const std::vector<Metric>& metrics) {
  for (const auto& metric : metrics) {
    const Metric wide{metric.name, metric.sum.to(at::kDouble), metric.weight.to(at::kDouble)};
    const auto known = std::find_if(
        sums_.begin(), sums_.end(), [&](const Metric& sum) { return sum.name == wide.name; });
    if (known == sums_.end()) {
      sums_.push_back(wide);
    } else {
      known->sum = known->sum + wide.sum;
      known->weight = known->weight + wide.weight;
    }
  }
}

namespace {

struct Total {
  std::string name;
  double sum = 0;
  double weight = 0;
};

// Copies everything to the host in one transfer. Sums are on the device of the loss; some weights
// were counted on the host.
std::vector<Total> to_host(const std::vector<Metric>& sums) {
  if (sums.empty()) {
    return {};
  }
  const auto device = sums.front().sum.device();
  std::vector<at::Tensor> numbers;
  for (const auto& metric : sums) {
    numbers.push_back(metric.sum.to(device));
    numbers.push_back(metric.weight.to(device));
  }
  const auto all = at::stack(numbers).cpu();
  const auto* values = all.const_data_ptr<double>();
  std::vector<Total> totals;
  for (size_t i = 0; i < sums.size(); ++i) {
    totals.push_back({sums[i].name, values[2 * i], values[2 * i + 1]});
  }
  return totals;
}

// Sends names with the numbers, since a metric may exist in some processes only.
std::vector<Total> gather_totals(const std::vector<Total>& own, const World& world) {
  if (world.size() == 1) {
    return own;
  }
  Json numbers = Json::array();
  for (const auto& total : own) {
    numbers.push_back({total.name, total.sum, total.weight});
  }
  const auto bytes = Json::to_msgpack(numbers);  // unlike JSON text, it allows infinities
  std::vector<Total> totals;
  for (const auto& theirs : world.all_gather(std::string(bytes.begin(), bytes.end()), "metrics")) {
    for (const auto& each : Json::from_msgpack(theirs)) {
      const auto name = each[0].get<std::string>();
      auto known = std::find_if(
          totals.begin(), totals.end(), [&](const Total& total) { return total.name == name; });
      if (known == totals.end()) {
        known = totals.insert(known, {name});
      }
      known->sum += each[1].get<double>();
      known->weight += each[2].get<double>();
    }
  }
  return totals;
}

}  // namespace

void MetricSums::write_to(Json& record, const World& world, const std::string& prefix) const {
  for (const auto& total : gather_totals(to_host(sums_), world)) {
    if (total.weight > 0) {
      record[prefix + total.name] = total.sum / total.weight;
    }
  }
}

}  // namespace reprise
