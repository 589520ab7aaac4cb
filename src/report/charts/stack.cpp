// The lines of a stack must have the same steps: thinned separately, they would not add up.
#include "report/charts/stack.h"

#include "report/page/html.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace reprise::report {

Stack stack_of(const std::vector<Line>& lines) {
  std::map<double, std::vector<double>> by_step;
  for (size_t i = 0; i < lines.size(); ++i) {
    for (const Point& point : lines[i].series.points) {
      auto& values = by_step[point.step];
      values.resize(lines.size());
      values[i] = std::max(0.0, point.value);
    }
  }
  Stack stack;
  stack.tops.resize(lines.size());
  for (auto& [step, values] : by_step) {
    std::partial_sum(values.begin(), values.end(), values.begin());
    stack.steps.push_back(step);
    for (size_t i = 0; i < lines.size(); ++i) {
      stack.tops[i].push_back(values[i]);
    }
  }
  return stack;
}

double highest_total(const Stack& stack) {
  return *std::max_element(stack.tops.back().begin(), stack.tops.back().end());
}

void thin_together(std::vector<Line>& lines) {
  constexpr size_t kIntervals = 400;
  const Stack stack = stack_of(lines);
  if (stack.steps.size() <= kIntervals) {
    return;
  }
  const std::vector<double>& totals = stack.tops.back();
  std::set<double> kept = {stack.steps.front(), stack.steps.back()};
  for (size_t stretch = 0; stretch < kIntervals; ++stretch) {
    const auto at = [&](size_t number) {
      return totals.begin() + static_cast<std::ptrdiff_t>(number * totals.size() / kIntervals);
    };
    const auto highest = std::max_element(at(stretch), at(stretch + 1));
    kept.insert(stack.steps[static_cast<size_t>(highest - totals.begin())]);
  }
  for (Line& line : lines) {
    std::erase_if(line.series.points,
                  [&](const Point& point) { return !kept.contains(point.step); });
  }
}

namespace {

/// Repeats each value just before the next step, so that it is drawn as constant until there.
Stack with_edges(const Stack& stack) {
  Stack edges;
  edges.tops.resize(stack.tops.size());
  for (size_t at = 0; at < stack.steps.size(); ++at) {
    for (size_t from = at == 0 ? 0 : at - 1; from <= at; ++from) {
      edges.steps.push_back(stack.steps[at]);
      for (size_t i = 0; i < stack.tops.size(); ++i) {
        edges.tops[i].push_back(stack.tops[i][from]);
      }
    }
  }
  return edges;
}

}  // namespace

std::string stack_svg(const Plot& plot, const std::vector<Line>& lines, bool is_held) {
  Stack stack = is_held ? with_edges(stack_of(lines)) : stack_of(lines);
  if (stack.steps.size() == 1) {  // an area needs a width
    stack.steps.push_back(stack.steps.front() + 1);
    for (auto& tops : stack.tops) {
      tops.push_back(tops.front());
    }
  }
  std::string shapes;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string path;
    for (size_t at = 0; at < stack.steps.size(); ++at) {
      path += (at == 0 ? "M" : "L") + plot.point(stack.steps[at], stack.tops[i][at]);
    }
    for (size_t at = stack.steps.size(); at-- > 0;) {
      const double below = i == 0 ? 0 : stack.tops[i - 1][at];
      path += "L" + plot.point(stack.steps[at], below);
    }
    shapes += element("g",
                      "class=\"s" + std::to_string(lines[i].color) + "\"",
                      element("path", "class=\"area\" d=\"" + path + "z\"", ""));
  }
  return shapes;
}

}  // namespace reprise::report
