// One metric over the steps of a run, read from records that may lack it or have invalid values.
#pragma once

#include <reprise/export.h>
#include <reprise/io/json.h>

#include <optional>
#include <string>
#include <vector>

namespace reprise::report {

struct Point {
  double step;
  double value;
  bool operator==(const Point&) const = default;
};

/// Points are in ascending order of steps; all values are finite.
struct Series {
  std::vector<Point> points;
  std::vector<double> broken_steps;  ///< where the value was NaN, infinite or null
  bool operator==(const Series&) const = default;
};

/// The number under `key`; "memory/activations" also finds memory: {activations}. std::nullopt if
/// the record has no finite number there.
std::optional<double> number_at(const Json& record, const std::string& key);

/// The number under "step", if it is in range.
std::optional<double> step_of(const Json& record);

/// Keys with a number in any record, in the order of their first appearance. At most 200, since a
/// file from elsewhere may have any number of them.
std::vector<std::string> numeric_keys(const std::vector<Json>& records);

REPRISE_API Series series_of(const std::vector<Json>& records, const std::string& key);

/// factor * numerator / denominator, at records that have both.
Series ratio_of(const std::vector<Json>& records,
                const std::string& numerator,
                const std::string& denominator,
                double factor);

/// Reduces the points to a number that can be drawn: the lowest and the highest of each interval of
/// steps, so that a single spike stays visible among a million steps.
REPRISE_API Series thinned(const Series& series);

/// A centred moving average over about a twentieth of all points. Being centred, it does not lag.
REPRISE_API Series smoothed(const Series& series);

std::optional<double> median_of(const Series& series);
std::optional<double> highest_of(const Series& series);
double sum_of(const Series& series);

}  // namespace reprise::report
