// Cumulative sequence lengths of a batch (cu_seqlens), as attention kernels for variable lengths
// take them. Counted on the host while rows are laid out, so that nobody waits for the GPU to learn
// them.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace reprise::data {

class CumulativeLengths {
 public:
  /// Appends a segment: a document, a row or the padding of a row. Empty segments are skipped.
  void add(int64_t length) {
    if (length == 0) {
      return;
    }
    const int64_t end = ends_.back() + length;
    // Kernels index with 32 bits.
    TORCH_CHECK(end <= std::numeric_limits<int32_t>::max(),
                "[batch] expected at most ",
                std::numeric_limits<int32_t>::max(),
                " tokens in a batch, found ",
                end,
                ". Use fewer rows");
    ends_.push_back(static_cast<int32_t>(end));
    longest_ = std::max(longest_, length);
  }

  /// (segments + 1) int32: where each segment begins, then the total number of tokens.
  at::Tensor tensor() const { return at::tensor(ends_, at::kInt); }
  int64_t longest() const { return longest_; }

 private:
  std::vector<int32_t> ends_{0};
  int64_t longest_ = 0;
};

}  // namespace reprise::data
