#include "train/loop/metric_sums.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace reprise {

namespace {

bool is_extreme(MetricMean mean) {
  return mean != MetricMean::Pooled && mean != MetricMean::OfMicroBatches;
}

bool is_least(MetricMean mean) {
  return mean == MetricMean::OfMinima || mean == MetricMean::Least;
}

bool is_of_micro_batches(MetricMean mean) {
  return mean == MetricMean::OfMicroBatches || mean == MetricMean::OfMinima ||
         mean == MetricMean::OfMaxima;
}

MetricMean in_evaluation(MetricMean mean) {
  switch (mean) {
    case MetricMean::OfMicroBatches:
      return MetricMean::Pooled;
    case MetricMean::OfMinima:
      return MetricMean::Least;
    case MetricMean::OfMaxima:
      return MetricMean::Greatest;
    default:
      return mean;
  }
}

struct Total {
  std::string name;
  MetricMean mean = MetricMean::Pooled;
  int64_t micro_batch = 0;
  double sum = 0;
  double weight = 0;

  /// Adds what another process, or another micro-batch, has.
  void add(double other, double other_weight) {
    if (!is_extreme(mean)) {
      sum += other;
      weight += other_weight;
    } else if (other_weight > 0) {
      const double best = is_least(mean) ? std::min(sum, other) : std::max(sum, other);
      sum = weight > 0 ? best : other;
      weight = 1;
    }
  }
};

Total& total_of(std::vector<Total>& totals,
                const std::string& name,
                MetricMean mean,
                int64_t micro_batch) {
  const auto known = std::find_if(totals.begin(), totals.end(), [&](const Total& total) {
    return total.micro_batch == micro_batch && total.name == name;
  });
  return known != totals.end() ? *known : totals.emplace_back(Total{name, mean, micro_batch});
}

// Copies everything to the host in one transfer. Sums are on the device of the loss; some weights
// were counted on the host.
std::vector<Total> to_host(const std::vector<MetricSums::Part>& parts) {
  if (parts.empty()) {
    return {};
  }
  const auto device = parts.front().metric.sum.device();
  std::vector<at::Tensor> numbers;
  for (const auto& part : parts) {
    numbers.push_back(part.metric.sum.to(device));
    numbers.push_back(part.metric.weight.to(device));
  }
  const auto all = at::stack(numbers).cpu();
  const auto* values = all.const_data_ptr<double>();
  std::vector<Total> totals;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto& [metric, micro_batch] = parts[i];
    totals.push_back({metric.name, metric.mean, micro_batch, values[2 * i], values[2 * i + 1]});
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
    numbers.push_back(
        {total.name, static_cast<int>(total.mean), total.micro_batch, total.sum, total.weight});
  }
  const auto bytes = Json::to_msgpack(numbers);  // unlike JSON text, it allows infinities
  std::vector<Total> totals;
  for (const auto& theirs : world.all_gather(std::string(bytes.begin(), bytes.end()), "metrics")) {
    for (const auto& each : Json::from_msgpack(theirs)) {
      total_of(totals,
               each[0].get<std::string>(),
               static_cast<MetricMean>(each[1].get<int>()),
               each[2].get<int64_t>())
          .add(each[3].get<double>(), each[4].get<double>());
    }
  }
  return totals;
}

// From the values of micro-batches to that of the step.
std::vector<Total> combined(const std::vector<Total>& totals) {
  std::vector<Total> steps;
  for (const Total& total : totals) {
    if (is_of_micro_batches(total.mean) && total.weight > 0) {
      total_of(steps, total.name, MetricMean::Pooled, 0).add(total.sum / total.weight, 1);
    } else {
      total_of(steps, total.name, total.mean, 0).add(total.sum, total.weight);
    }
  }
  return steps;
}

}  // namespace

void MetricSums::add(const std::vector<Metric>& metrics) {
  for (const auto& metric : metrics) {
    const auto mean = of_ == Of::Step ? metric.mean : in_evaluation(metric.mean);
    Part part{{metric.name, metric.sum.to(at::kDouble), metric.weight.to(at::kDouble), mean},
              is_of_micro_batches(mean) ? micro_batches_ : 0};
    const auto known = std::find_if(parts_.begin(), parts_.end(), [&](const Part& other) {
      return other.micro_batch == part.micro_batch && other.metric.name == metric.name;
    });
    if (known == parts_.end() || is_extreme(mean)) {
      parts_.push_back(std::move(part));
    } else {
      known->metric.sum = known->metric.sum + part.metric.sum;
      known->metric.weight = known->metric.weight + part.metric.weight;
    }
  }
  ++micro_batches_;
}

void MetricSums::write_to(Json& record, const World& world, const std::string& prefix) const {
  for (const auto& total : combined(gather_totals(to_host(parts_), world))) {
    if (total.weight > 0) {
      record[prefix + total.name] = total.sum / total.weight;
    }
  }
}

}  // namespace reprise
