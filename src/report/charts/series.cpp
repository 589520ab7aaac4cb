// Everything that the report draws or tabulates comes from series_of(), the only function that has
// to deal with invalid records.
#include "report/charts/series.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace reprise::report {
namespace {

constexpr size_t kStretches = 400;

/// Beyond this, differences between values would overflow.
constexpr double kLargest = 1e150;

const Json* find_value(const Json& record, const std::string& key) {
  if (!record.is_object()) {
    return nullptr;
  }
  if (const auto flat = record.find(key); flat != record.end()) {
    return &*flat;
  }
  // "critic/memory/logits" is logits of critic/memory.
  for (size_t slash = key.find('/'); slash != std::string::npos; slash = key.find('/', slash + 1)) {
    const auto outer = record.find(key.substr(0, slash));
    if (outer != record.end()) {
      if (const Json* const found = find_value(*outer, key.substr(slash + 1))) {
        return found;
      }
    }
  }
  return nullptr;
}

/// Integers beyond this are not exact as doubles.
constexpr double kLargestStep = 1e15;

bool is_drawable(double value) {
  return std::isfinite(value) && std::abs(value) < kLargest;
}

void sort_by_step(std::vector<Point>& points) {
  std::stable_sort(
      points.begin(), points.end(), [](const Point& a, const Point& b) { return a.step < b.step; });
}

}  // namespace

std::optional<double> number_at(const Json& record, const std::string& key) {
  const Json* const value = find_value(record, key);
  if (value == nullptr || !value->is_number() || !is_drawable(value->get<double>())) {
    return std::nullopt;
  }
  return value->get<double>();
}

std::optional<double> step_of(const Json& record) {
  const auto step = number_at(record, "step");
  return step && std::abs(*step) <= kLargestStep ? step : std::nullopt;
}

std::vector<std::string> numeric_keys(const std::vector<Json>& records) {
  constexpr size_t kMost = 200;
  std::vector<std::string> keys;
  std::set<std::string> seen;
  for (const Json& record : records) {
    if (!record.is_object()) {
      continue;
    }
    for (const auto& [key, value] : record.items()) {
      if (keys.size() < kMost && value.is_number() && seen.insert(key).second) {
        keys.push_back(key);
      }
    }
  }
  return keys;
}

Series series_of(const std::vector<Json>& records, const std::string& key) {
  Series series;
  for (const Json& record : records) {
    const auto step = step_of(record);
    const Json* const value = step ? find_value(record, key) : nullptr;
    if (value == nullptr) {
      continue;
    }
    if (const auto number = number_at(record, key)) {
      series.points.push_back({*step, *number});
    } else if (value->is_number() || value->is_null()) {
      series.broken_steps.push_back(*step);
    }
  }
  sort_by_step(series.points);
  std::sort(series.broken_steps.begin(), series.broken_steps.end());
  return series;
}

Series ratio_of(const std::vector<Json>& records,
                const std::string& numerator,
                const std::string& denominator,
                double factor) {
  Series series;
  for (const Json& record : records) {
    const auto step = step_of(record);
    const auto top = number_at(record, numerator);
    const auto bottom = number_at(record, denominator);
    if (step && top && bottom && *bottom != 0 && is_drawable(*top / *bottom * factor)) {
      series.points.push_back({*step, *top / *bottom * factor});
    }
  }
  sort_by_step(series.points);
  return series;
}

Series thinned(const Series& series) {
  const auto& points = series.points;
  if (points.size() <= 2 * kStretches) {
    return series;
  }
  Series thin;
  for (size_t stretch = 0; stretch < kStretches; ++stretch) {
    const auto begin =
        points.begin() + static_cast<std::ptrdiff_t>(stretch * points.size() / kStretches);
    const auto end =
        points.begin() + static_cast<std::ptrdiff_t>((stretch + 1) * points.size() / kStretches);
    auto [low, high] = std::minmax_element(
        begin, end, [](const Point& a, const Point& b) { return a.value < b.value; });
    thin.points.push_back(*std::min(low, high));
    if (low != high) {
      thin.points.push_back(*std::max(low, high));
    }
  }
  // Keep the last point, so that the curve ends with the run.
  if (thin.points.back().step < points.back().step) {
    thin.points.push_back(points.back());
  }
  const size_t every = 1 + series.broken_steps.size() / kStretches;
  for (size_t i = 0; i < series.broken_steps.size(); i += every) {
    thin.broken_steps.push_back(series.broken_steps[i]);
  }
  return thin;
}

Series smoothed(const Series& series) {
  const size_t count = series.points.size(), reach = count / 40;
  std::vector<double> sums = {0};
  for (const Point& point : series.points) {
    sums.push_back(sums.back() + point.value);
  }
  Series smooth = series;
  for (size_t i = 0; i < count; ++i) {
    const size_t begin = i - std::min(i, reach), end = std::min(count, i + reach + 1);
    smooth.points[i].value = (sums[end] - sums[begin]) / static_cast<double>(end - begin);
  }
  return smooth;
}

std::optional<double> median_of(const Series& series) {
  if (series.points.empty()) {
    return std::nullopt;
  }
  std::vector<double> values;
  for (const Point& point : series.points) {
    values.push_back(point.value);
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::optional<double> highest_of(const Series& series) {
  if (series.points.empty()) {
    return std::nullopt;
  }
  return std::max_element(series.points.begin(),
                          series.points.end(),
                          [](const Point& a, const Point& b) { return a.value < b.value; })
      ->value;
}

double sum_of(const Series& series) {
  double sum = 0;
  for (const Point& point : series.points) {
    sum += point.value;
  }
  return sum;
}

}  // namespace reprise::report
