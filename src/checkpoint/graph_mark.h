// Distinguishes autograd nodes created after some point from older ones, by their sequence numbers.
#pragma once

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>

#include <cstdint>

namespace reprise::detail {

/// Remembers this thread's next sequence number. Nodes of other threads count as older.
class GraphMark {
 public:
  bool is_older(const torch::autograd::Node& node) const {
    return node.thread_id() != thread_ || node.sequence_nr() < first_;
  }

 private:
  uint64_t thread_ = at::RecordFunction::currentThreadId();
  uint64_t first_ = at::sequence_number::peek();
};

}  // namespace reprise::detail
