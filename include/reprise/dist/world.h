// The processes that train together, and what they say to each other.
//
// Every function here that is not about this process alone is a collective: all processes call it,
// in the same order, with the same sizes. `what` names it in messages: a process that dies or hangs
// is reported together with what the others were waiting for. Nothing waits longer than the world's
// timeout.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace reprise {

/// A collective under way. Its tensors stay as they are until wait() has returned.
class REPRISE_API Collective {
 public:
  virtual ~Collective();
  /// On a GPU the current stream waits, not the process.
  virtual void wait() = 0;
};

using PendingCollective = std::unique_ptr<Collective>;

class REPRISE_API World {
 public:
  virtual ~World();
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  /// Of this process among those of its machine: which GPU is its own.
  virtual int64_t local_rank() const = 0;
  bool is_first() const { return rank() == 0; }

  /// Replaces a contiguous tensor by the sum over all processes, the same to the last bit in all.
  virtual PendingCollective start_sum(const at::Tensor& value, const std::string& what) const = 0;
  /// Fills `whole` with the parts of all processes in the order of their ranks. Flat and
  /// contiguous; `part` may be this process's place in `whole`.
  virtual PendingCollective start_gather(const at::Tensor& whole,
                                         const at::Tensor& part,
                                         const std::string& what) const = 0;
  /// Fills `part` with this process's part of the sum of all `whole`. Flat and contiguous, and not
  /// the same memory.
  virtual PendingCollective start_reduce(const at::Tensor& part,
                                         const at::Tensor& whole,
                                         const std::string& what) const = 0;
  /// What every process said, by rank. Any bytes, of any length.
  virtual std::vector<std::string> gather(const std::string& own,
                                          const std::string& what) const = 0;

  /// The sum over all processes, in every process, as a tensor of its own.
  at::Tensor sum(const at::Tensor& value, const std::string& what = "a sum") const;
  double sum(double value, const std::string& what = "a sum") const;
  double max(double value, const std::string& what = "a maximum") const;
  /// Returns when all processes have called it.
  void wait_for_all(const std::string& what) const;
  /// What the first process said.
  std::string from_first(const std::string& own, const std::string& what) const;
  /// Does something that may fail in one process only, such as writing a file. If it threw
  /// anywhere, it throws everywhere, naming the process; so nobody waits for one that gave up.
  /// `work` has no collectives of its own: the others would be in them while one has left.
  void together(const std::string& what, const std::function<void()>& work) const;
  /// The same for something that the first process alone does.
  void first_alone(const std::string& what, const std::function<void()>& work) const;

  /// One process.
  static const World& single();
};

}  // namespace reprise
