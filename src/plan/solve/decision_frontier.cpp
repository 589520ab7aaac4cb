// Pruning and thinning of partial decision vectors.
#include "plan/solve/decision_frontier.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <tuple>

namespace reprise::planning {
namespace {

constexpr int64_t kSurplusWidth = 8;  // relative to the width in held bytes

auto by_time(const DecisionPoint& point) {
  return std::make_tuple(point.ns, point.held, point.moved, point.surplus);
}

/// Whether `b` lies on or above the line from `a` to `c`.
bool is_inside(const DecisionPoint& a, const DecisionPoint& b, const DecisionPoint& c) {
  const auto slope = [](const DecisionPoint& from, const DecisionPoint& to) {
    return static_cast<double>(to.ns - from.ns) / static_cast<double>(to.held - from.held);
  };
  return slope(a, b) >= slope(a, c);
}

/// Marks the corners of the lower convex hull of held bytes and time, among points with at most
/// `moved` and `surplus` bytes. `order` sorts by held bytes, then time.
void mark_hull(const std::vector<DecisionPoint>& points,
               const std::vector<size_t>& order,
               int64_t moved,
               int64_t surplus,
               std::vector<bool>& marks) {
  std::vector<size_t> hull;
  for (size_t i : order) {
    const auto& point = points[i];
    const bool counts = point.moved <= moved && point.surplus <= surplus;
    if (!counts || (!hull.empty() && point.ns >= points[hull.back()].ns)) {
      continue;  // as many bytes or more, and no faster
    }
    while (hull.size() > 1 &&
           is_inside(points[hull[hull.size() - 2]], points[hull.back()], point)) {
      hull.pop_back();
    }
    hull.push_back(i);
  }
  for (size_t i : hull) {
    marks[i] = true;
  }
}

std::vector<bool> marked_hulls(const std::vector<DecisionPoint>& points,
                               const std::vector<int64_t>& levels) {
  std::vector<size_t> order(points.size());
  int64_t largest_surplus = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
    largest_surplus = std::max(largest_surplus, points[i].surplus);
  }
  std::sort(order.begin(), order.end(), [&points](size_t a, size_t b) {
    return std::make_tuple(points[a].held, by_time(points[a]), a) <
           std::make_tuple(points[b].held, by_time(points[b]), b);
  });
  std::vector<bool> marks(points.size());
  for (int64_t level : levels) {
    mark_hull(points, order, level, 0, marks);
    mark_hull(points, order, level, largest_surplus, marks);
  }
  return marks;
}

/// Also marks the fastest point of each cell. `points` are sorted by time.
std::vector<bool> with_cells(const std::vector<DecisionPoint>& points,
                             int64_t width,
                             std::vector<bool> marks) {
  std::vector<std::tuple<int64_t, int64_t, int64_t, size_t>> cells;
  cells.reserve(points.size());
  for (size_t i = 0; i < points.size(); ++i) {
    const auto& point = points[i];
    cells.emplace_back(
        point.held / width, point.moved / width, point.surplus / (kSurplusWidth * width), i);
  }
  std::sort(cells.begin(), cells.end());
  const auto cell = [&cells](size_t i) {
    return std::make_tuple(std::get<0>(cells[i]), std::get<1>(cells[i]), std::get<2>(cells[i]));
  };
  for (size_t i = 0; i < cells.size(); ++i) {
    if (i == 0 || cell(i) != cell(i - 1)) {
      marks[std::get<3>(cells[i])] = true;
    }
  }
  return marks;
}

size_t count(const std::vector<bool>& marks) {
  return static_cast<size_t>(std::count(marks.begin(), marks.end(), true));
}

}  // namespace

void prune(std::vector<DecisionPoint>& points) {
  std::stable_sort(points.begin(), points.end(), [](const auto& a, const auto& b) {
    return by_time(a) < by_time(b);
  });
  size_t kept = 0;
  for (const auto& point : std::vector<DecisionPoint>(points)) {
    const bool is_beaten = std::any_of(points.begin(),
                                       points.begin() + static_cast<std::ptrdiff_t>(kept),
                                       [&point](const DecisionPoint& other) {
                                         return other.held <= point.held &&
                                                other.moved <= point.moved &&
                                                other.surplus <= point.surplus;
                                       });
    if (!is_beaten) {
      points[kept++] = point;
    }
  }
  points.resize(kept);
}

Thinned thin(std::vector<DecisionPoint>& points,
             size_t limit,
             const std::vector<int64_t>& moved_levels) {
  if (points.size() <= limit) {
    return {};
  }
  int64_t largest = 0;
  std::vector<bool> always(points.size());
  for (size_t i = 0; i < points.size(); ++i) {
    const auto& point = points[i];
    largest = std::max({largest, point.held, point.moved, point.surplus});
    always[i] = point.held == 0 && point.moved == 0 && point.surplus == 0;
  }
  if (const auto hulls = marked_hulls(points, moved_levels); count(hulls) <= limit / 2) {
    std::transform(hulls.begin(), hulls.end(), always.begin(), always.begin(), std::logical_or<>());
  }
  // Each width is a fifth larger than the one before; the last makes one cell of everything.
  std::vector<int64_t> widths{1};
  while (widths.back() <= largest) {
    widths.push_back(widths.back() + widths.back() / 5 + 1);
  }
  const auto width =
      *std::partition_point(widths.begin(), std::prev(widths.end()), [&](int64_t each) {
        return count(with_cells(points, each, always)) > limit;
      });
  const auto marks = with_cells(points, width, always);
  size_t kept = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    if (marks[i]) {
      points[kept++] = points[i];
    }
  }
  points.resize(kept);
  return {width, kSurplusWidth * width};
}

}  // namespace reprise::planning
