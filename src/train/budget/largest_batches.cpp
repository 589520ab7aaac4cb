#include "train/budget/largest_batches.h"

#include "train/budget/batch_shape.h"
#include "train/loop/collate_rows.h"

#include <algorithm>
#include <utility>

namespace reprise {
namespace {

constexpr size_t kMostCollated = 2048;
constexpr size_t kMostTraced = 4;

struct Candidate {
  MicroBatchRows rows;
  int64_t tokens;  // with padding, if there is any
};

int64_t tokens_in(const MicroBatchRows& rows, const Dataset& data, const CollateOptions& options) {
  int64_t sum = 0, longest = 0;
  for (const int64_t example : rows.examples) {
    sum += data.length(example);
    longest = std::max(longest, data.length(example));
  }
  return options.padding_free ? sum : longest * std::ssize(rows.examples);
}

/// Keeps the `count` candidates with the most tokens, sorted.
void keep_largest(std::vector<Candidate>& candidates, size_t count) {
  std::stable_sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
    return a.tokens > b.tokens;
  });
  if (candidates.size() > count) {
    candidates.erase(candidates.begin() + static_cast<ptrdiff_t>(count), candidates.end());
  }
}

}  // namespace

std::vector<MicroBatchRows> largest_micro_batches(BatchPlan plan,
                                                  int64_t first,
                                                  int64_t last,
                                                  const Dataset& data,
                                                  const CollateOptions& options) {
  std::vector<Candidate> candidates;
  for (int64_t step = first; step < last; ++step) {
    for (auto& rows : plan.micro_batches(step)) {
      const int64_t tokens = tokens_in(rows, data, options);
      candidates.push_back({std::move(rows), tokens});
    }
    if (candidates.size() > 2 * kMostCollated) {
      keep_largest(candidates, kMostCollated);
    }
  }
  keep_largest(candidates, kMostCollated);

  std::vector<MicroBatchRows> largest;
  std::vector<BatchShape> shapes;
  for (auto& candidate : candidates) {
    const auto shape = shape_of(collate_rows(data, candidate.rows, options));
    const bool is_covered = std::any_of(
        shapes.begin(), shapes.end(), [&](const BatchShape& one) { return one.covers(shape); });
    if (!is_covered) {
      shapes.push_back(shape);
      largest.push_back(std::move(candidate.rows));
    }
    if (largest.size() == kMostTraced) {
      break;
    }
  }
  return largest;
}

}  // namespace reprise
