// The Pareto frontier of one block's decision vectors, built operator by operator.
//
// A point is a partial decision vector, represented by its sums. A point is removed only if another
// one is no worse in every sum (prune), or no slower and close in bytes (thin). Sums stay exact.
#pragma once

#include "plan/cost/chain_costs.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::planning {

struct DecisionPoint {
  int64_t held = 0;     // bytes on the device
  int64_t moved = 0;    // bytes on the host
  int64_t surplus = 0;  // bytes in backward that it does not need
  int64_t ns = 0;
  size_t node = 0;  // its decisions: the last one made, in DecisionTree
};

/// The decisions of all points, as paths to the root. Points share common prefixes.
class DecisionTree {
 public:
  static constexpr size_t kRoot = 0;

  size_t add(size_t parent, Choice choice) {
    nodes_.push_back({parent, choice});
    return nodes_.size() - 1;
  }
  /// From the last decision made to the first.
  std::vector<Choice> path(size_t node) const {
    std::vector<Choice> choices;
    for (; node != kRoot; node = nodes_[node].parent) {
      choices.push_back(nodes_[node].choice);
    }
    return choices;
  }

 private:
  struct Node {
    size_t parent;
    Choice choice;
  };
  std::vector<Node> nodes_{{kRoot, Choice::Recompute}};
};

/// Removes points that another one beats or equals in every sum.
void prune(std::vector<DecisionPoint>& points);

/// How many bytes more the point that represents a removed one may have.
struct Thinned {
  int64_t held = 0;  // also of moved bytes
  int64_t surplus = 0;
};

/// Reduces the points to about `limit`. Keeps the corners of the convex hull of held bytes and time
/// at each of `moved_levels`, which long chains mix, and the fastest point of each cell of a grid
/// over the three sums of bytes, as fine as the limit allows. Cells are wide in surplus bytes,
/// which count at one block only. The point that holds nothing always stays.
Thinned thin(std::vector<DecisionPoint>& points,
             size_t limit,
             const std::vector<int64_t>& moved_levels);

}  // namespace reprise::planning
