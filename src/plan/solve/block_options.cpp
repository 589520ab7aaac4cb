// Dynamic programming over a block's operators, from the last to the first.
//
// It goes backwards because the operators that follow determine where a recompute stops. One set of
// points stands for "the recompute has stopped before this operator", the other for "it runs it".
#include "plan/solve/block_options.h"

#include "plan/solve/decision_frontier.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace reprise::planning {
namespace {

class DecisionSearch {
 public:
  DecisionSearch(const BlockCosts& block,
                 const SolverOptions& options,
                 const std::vector<int64_t>& moved_levels)
      : block_(block), options_(options), moved_levels_(moved_levels) {}

  /// Points over all operators, fastest first.
  std::vector<DecisionPoint> run() {
    (block_.stop == ReplayStop::LastSaved ? running_ : stopped_).push_back({});
    for (size_t i = block_.ops.size(); i-- > 0;) {
      // Past the stop nothing runs again, so nothing is worth holding.
      if (i >= block_.replay_end) {
        skip();
      } else {
        step(block_.ops[i]);
      }
    }
    running_.insert(running_.end(), stopped_.begin(), stopped_.end());
    prune(running_);
    lose(thin(running_, options_.limits.options, moved_levels_));
    return std::move(running_);
  }

  /// From the first operator to the last.
  std::vector<Choice> choices(const DecisionPoint& point) const { return tree_.path(point.node); }
  const Thinned& thinned() const { return thinned_; }

 private:
  void lose(const Thinned& more) {
    thinned_.held += more.held;
    thinned_.surplus += more.surplus;
  }

  void skip() {
    for (auto* points : {&running_, &stopped_}) {
      for (auto& point : *points) {
        point.node = tree_.add(point.node, Choice::Recompute);
      }
    }
  }

  void step(const OpCosts& op) {
    std::vector<DecisionPoint> running, stopped;
    for (const auto& point : running_) {
      hold(point, op, running);
      recompute(point, op, running);
    }
    for (const auto& point : stopped_) {
      if (op.needed) {
        hold(point, op, stopped);
        recompute(point, op, running);
      } else {
        stopped.push_back(point);
        stopped.back().node = tree_.add(point.node, Choice::Recompute);
      }
    }
    prune(running);
    prune(stopped);
    const auto a = thin(running, options_.limits.points_of_ops, moved_levels_);
    const auto b = thin(stopped, options_.limits.points_of_ops, moved_levels_);
    lose({std::max(a.held, b.held), std::max(a.surplus, b.surplus)});
    running_ = std::move(running);
    stopped_ = std::move(stopped);
  }

  void recompute(DecisionPoint point, const OpCosts& op, std::vector<DecisionPoint>& into) {
    point.ns += op.forward_ns;
    point.node = tree_.add(point.node, Choice::Recompute);
    into.push_back(point);
  }

  void hold(const DecisionPoint& from, const OpCosts& op, std::vector<DecisionPoint>& into) {
    const int64_t surplus = op.needed ? 0 : op.result_bytes;
    if (options_.allow_keep && op.can_keep) {
      auto point = from;
      point.held += op.result_bytes;
      point.surplus += surplus;
      point.node = tree_.add(from.node, Choice::Keep);
      into.push_back(point);
    }
    if (options_.allow_offload && op.can_offload) {
      auto point = from;
      point.moved += op.result_bytes;
      point.surplus += surplus;
      point.node = tree_.add(from.node, Choice::Offload);
      into.push_back(point);
    }
    if (options_.allow_compress && op.can_compress &&
        (op.compresses_exactly || options_.allow_lossy)) {
      auto point = from;
      point.held += op.compressed_bytes;
      point.surplus += op.compressed_bytes;
      point.ns += op.compress_ns;
      point.node = tree_.add(from.node, Choice::Compress);
      into.push_back(point);
    }
  }

  const BlockCosts& block_;
  const SolverOptions& options_;
  const std::vector<int64_t>& moved_levels_;
  DecisionTree tree_;
  std::vector<DecisionPoint> running_, stopped_;
  Thinned thinned_;
};

auto numbers(const BlockOption& option) {
  return std::make_tuple(option.extra_ns,
                         option.held_bytes,
                         option.moved_bytes,
                         option.forward_bytes,
                         option.backward_bytes);
}

bool beats_or_equals(const BlockOption& a, const BlockOption& b) {
  return a.extra_ns <= b.extra_ns && a.held_bytes <= b.held_bytes &&
         a.moved_bytes <= b.moved_bytes && a.forward_bytes <= b.forward_bytes &&
         a.backward_bytes <= b.backward_bytes;
}

}  // namespace

std::vector<int64_t> moved_levels(const ChainCosts& costs, const SolverOptions& options) {
  constexpr size_t kMost = 64;
  int64_t largest = 0;
  for (const auto& block : costs.kinds) {
    int64_t bytes = block.can_offload_input ? block.input_bytes : 0;
    for (const auto& op : block.ops) {
      bytes += op.can_offload ? op.result_bytes : 0;
    }
    largest = std::max(largest, bytes);
  }
  std::vector<int64_t> levels{0};
  const auto count =
      static_cast<int64_t>(std::clamp<size_t>(options.limits.flight_levels, 1, kMost));
  const int64_t step = (largest + count - 1) / count;
  for (int64_t i = 1; i <= count && options.allow_offload && largest > 0; ++i) {
    levels.push_back(i * step);
  }
  return levels;
}

BlockOptions block_options(const BlockCosts& block,
                           const SolverOptions& options,
                           const std::vector<int64_t>& moved_levels) {
  DecisionSearch search(block, options, moved_levels);
  std::vector<BlockOption> all;
  if (options.allow_plain) {
    all.push_back(price_plain(block));
  }
  for (const auto& point : search.run()) {
    const auto choices = search.choices(point);
    all.push_back(price(block, choices, /*offloads_input=*/false));
    if (options.allow_offload && block.can_offload_input) {
      all.push_back(price(block, choices, /*offloads_input=*/true));
    }
  }
  std::stable_sort(
      all.begin(), all.end(), [](const auto& a, const auto& b) { return numbers(a) < numbers(b); });
  BlockOptions result;
  result.held_thinned_by = search.thinned().held;
  result.surplus_thinned_by = search.thinned().surplus;
  for (auto& option : all) {
    const bool is_beaten =
        std::any_of(result.options.begin(), result.options.end(), [&option](const auto& other) {
          return beats_or_equals(other, option);
        });
    if (!is_beaten) {
      result.options.push_back(std::move(option));
    }
  }
  return result;
}

}  // namespace reprise::planning
