// Runs of tokens that see each other, over the rows of a batch one after the other: counted on the
// host while rows are laid out, because a GPU could only tell by being waited for.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace reprise {

class RunStarts {
 public:
  /// The next run: a document, a row, or its padding. One of no tokens is none.
  void add(int64_t length) {
    if (length == 0) {
      return;
    }
    const int64_t end = starts_.back() + length;
    // Kernels count in 32 bits.
    TORCH_CHECK(end <= std::numeric_limits<int32_t>::max(),
                "[batch] expected at most ",
                std::numeric_limits<int32_t>::max(),
                " tokens in a batch, found ",
                end,
                ". Take fewer rows.");
    starts_.push_back(static_cast<int32_t>(end));
    longest_ = std::max(longest_, length);
  }

  /// Where each begins, and behind them the number of all tokens: (runs + 1) int32.
  at::Tensor starts() const { return at::tensor(starts_, at::kInt); }
  int64_t longest() const { return longest_; }

 private:
  std::vector<int32_t> starts_{0};
  int64_t longest_ = 0;
};

}  // namespace reprise
