// One quantity over the steps of a run, taken from records that may lack it or hold anything.
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

/// Points ascend by step; all values are finite.
struct Series {
  std::vector<Point> points;
  std::vector<double> broken_steps;  ///< where the value was NaN, infinite or null
  bool operator==(const Series&) const = default;
};

/// The number under `key`; "memory/activations" is also looked for as memory: {activations}. Not a
/// number where the record has no number, or one that is not finite.
std::optional<double> number_at(const Json& record, const std::string& key);

/// The number under "step", where it can be counted to.
std::optional<double> step_of(const Json& record);

/// The keys under which any record has a number, in the order in which they first appear; the first
/// 200 of them, as a file that we did not write may have any number.
std::vector<std::string> numeric_keys(const std::vector<Json>& records);

REPRISE_API Series series_of(const std::vector<Json>& records, const std::string& key);

/// numerator / denominator where a record has both, times `factor`.
Series ratio_of(const std::vector<Json>& records,
                const std::string& numerator,
                const std::string& denominator,
                double factor);

/// Few enough points to draw: the lowest and the highest of each stretch of steps, so that a single
/// spike stays visible among a million steps.
REPRISE_API Series thinned(const Series& series);

/// The mean of the points around each, about a twentieth of all: looking both ways, the curve does
/// not lag.
REPRISE_API Series smoothed(const Series& series);

std::optional<double> median_of(const Series& series);
std::optional<double> highest_of(const Series& series);
double sum_of(const Series& series);

}  // namespace reprise::report
