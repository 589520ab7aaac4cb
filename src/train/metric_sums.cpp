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

namespace {

struct Total {
  std::string name;
  double sum = 0;
  double weight = 0;
};

// With one wait for the device. Weights that were counted on the host would need a device each;
// sums are where the loss was.
std::vector<Total> on_the_host(const std::vector<Figure>& sums) {
  if (sums.empty()) {
    return {};
  }
  const auto device = sums.front().sum.device();
  std::vector<at::Tensor> numbers;
  for (const auto& figure : sums) {
    numbers.push_back(figure.sum.to(device));
    numbers.push_back(figure.weight.to(device));
  }
  const auto all = at::stack(numbers).cpu();
  const auto* values = all.const_data_ptr<double>();
  std::vector<Total> totals;
  for (size_t i = 0; i < sums.size(); ++i) {
    totals.push_back({sums[i].name, values[2 * i], values[2 * i + 1]});
  }
  return totals;
}

// Names go with the numbers: a figure may have come up in some processes only.
std::vector<Total> of_all_processes(const std::vector<Total>& own, const World& world) {
  if (world.size() == 1) {
    return own;
  }
  Json said = Json::array();
  for (const auto& total : own) {
    said.push_back({total.name, total.sum, total.weight});
  }
  const auto bytes = Json::to_msgpack(said);  // unlike text it has infinities
  std::vector<Total> totals;
  for (const auto& theirs : world.gather(std::string(bytes.begin(), bytes.end()), "metrics")) {
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
  for (const auto& total : of_all_processes(on_the_host(sums_), world)) {
    if (total.weight > 0) {
      record[prefix + total.name] = total.sum / total.weight;
    }
  }
}

}  // namespace reprise
