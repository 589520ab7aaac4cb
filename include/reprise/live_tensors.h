// Which tensors are alive, and who made them: for the question what fills the memory.
//
//   const reprise::LiveTensorReport live;
//   ... a training step ...
//   std::cout << live.report();
//
// An error of an allocator inside an operator carries the report in its message.
#pragma once

#include <reprise/export.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace reprise {

namespace detail {
class LiveTensors;
}  // namespace detail

/// Whether an error comes from an allocator.
REPRISE_API bool is_out_of_memory(const std::exception& error);

/// Live tensors that one operator made in one region.
struct LiveTensorGroup {
  std::string region;  ///< the region in messages; empty outside of regions
  std::string phase;   ///< "forward", "recompute", or "backward" for the nodes of the graph
  std::string op;      ///< "aten::mm"
  size_t count = 0;    ///< storages
  int64_t bytes = 0;
};

/// While it exists, notes which operator made each storage, and in which region: on the thread that
/// made the report, and on whatever thread recomputes its regions. It holds no tensors. Costs about
/// a microsecond per operator. One per thread; make it outside of regions.
class REPRISE_API LiveTensorReport {
 public:
  LiveTensorReport();
  ~LiveTensorReport();
  LiveTensorReport(const LiveTensorReport&) = delete;
  LiveTensorReport& operator=(const LiveTensorReport&) = delete;

  /// What is alive now, the most bytes first.
  std::vector<LiveTensorGroup> groups() const;
  /// The same as a table with a line for each of the `lines` largest groups, and their total.
  std::string report(size_t lines = 16) const;

 private:
  struct Scope;
  std::unique_ptr<Scope> scope_;
};

}  // namespace reprise
