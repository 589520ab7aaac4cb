// The processes that train together, and their collectives.
//
// Every function here except the accessors is a collective: all processes must call it, in the same
// order and with the same sizes. `what` names the collective in error messages: when a process dies
// or hangs, the others report it together with what they were waiting for. No call waits longer
// than the world's timeout.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace reprise {

/// A collective in flight. Do not read or write its tensors until wait() has returned.
class REPRISE_API Collective {
 public:
  virtual ~Collective();
  /// For GPU tensors the current stream waits, not the process.
  virtual void wait() = 0;
};

using PendingCollective = std::unique_ptr<Collective>;

class REPRISE_API World {
 public:
  virtual ~World();
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  /// Rank among the processes of this machine. It tells which GPU to use.
  virtual int64_t local_rank() const = 0;
  bool is_first() const { return rank() == 0; }

  /// Replaces a contiguous tensor by its sum over all processes. The result is the same to the last
  /// bit in every process.
  virtual PendingCollective start_all_reduce(const at::Tensor& value,
                                             const std::string& what) const = 0;
  /// Fills `whole` with the parts of all processes, in rank order. Both are flat and contiguous;
  /// `part` may be a view of this process's range in `whole`.
  virtual PendingCollective start_all_gather(const at::Tensor& whole,
                                             const at::Tensor& part,
                                             const std::string& what) const = 0;
  /// Fills `part` with this process's part of the sum of all `whole`. Both are flat and contiguous
  /// and must not overlap.
  virtual PendingCollective start_reduce_scatter(const at::Tensor& part,
                                                 const at::Tensor& whole,
                                                 const std::string& what) const = 0;
  /// The strings of all processes, by rank. They may hold any bytes and differ in length.
  virtual std::vector<std::string> all_gather(const std::string& own,
                                              const std::string& what) const = 0;

  /// The sum over all processes, as a new tensor.
  at::Tensor sum(const at::Tensor& value, const std::string& what = "a sum") const;
  double sum(double value, const std::string& what = "a sum") const;
  double max(double value, const std::string& what = "a maximum") const;
  /// Returns once all processes have called it.
  void barrier(const std::string& what) const;
  /// The string of the first process, in every process.
  std::string broadcast(const std::string& own, const std::string& what) const;
  /// Runs `work`, which may fail in one process only, such as writing a file. If it throws in any
  /// process, this throws in all of them and names that process, so that nobody waits for one that
  /// gave up. `work` must not call collectives: the others would wait in them forever.
  void run_on_all(const std::string& what, const std::function<void()>& work) const;
  /// The same for work that only the first process does.
  void run_on_first(const std::string& what, const std::function<void()>& work) const;

  /// A world of this process alone.
  static const World& single();
};

}  // namespace reprise
