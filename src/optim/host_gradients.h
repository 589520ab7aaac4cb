// Gradients in host memory.
//
// Note [Gradients that leave]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~
// As soon as backward has put a parameter's gradient in place, a hook takes it away: it leaves for
// host memory while backward goes on, and the parameter has no gradient. In a later micro-batch the
// sum so far comes back, and the new gradient is added on the device, as AccumulateGrad would: the
// same sums in the same order and dtype, hence the same bits. Each sum's norm is computed before it
// leaves. So the norm of all is known when backward is done, and clipping multiplies each gradient
// when it comes back for the update (Note [Updates in stages]).
//
// A gradient stays on the device until it has left. Those on their way take no more than the
// largest gradient, or kMostLeaving bytes; then backward waits for the oldest.
#pragma once

#include "memory/copy_streams.h"

#include <reprise/optim/optimizer.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <deque>
#include <vector>

namespace reprise {

class REPRISE_API HostGradients {
 public:
  /// Hooks the parameters, which must be leaves without another hook, on one device.
  explicit HostGradients(const Optimizer::Parameters& parameters);
  ~HostGradients();
  HostGradients(const HostGradients&) = delete;
  HostGradients& operator=(const HostGradients&) = delete;

  /// Call it after each backward.
  void end_backward();

  /// In its scope gradients take the same memory for the same time, and are then lost: for a
  /// backward that is only measured. `adds`: as where there are gradients already.
  class Rehearsal {
   public:
    Rehearsal(HostGradients& gradients, bool adds);
    ~Rehearsal();
    Rehearsal(const Rehearsal&) = delete;
    Rehearsal& operator=(const Rehearsal&) = delete;

   private:
    HostGradients& gradients_;
  };

  /// As clip_grad_norm(): the norm, in float32 on the device. Updates multiply by factor().
  at::Tensor clip(double max_norm);
  /// Undefined: no clipping.
  const at::Tensor& factor() const { return factor_; }

  bool has(size_t parameter) const { return entries_[parameter].has_value; }
  /// In host memory, with the parameter's shape.
  const at::Tensor& gradient(size_t parameter) const { return entries_[parameter].host; }
  void zero();

  int64_t host_bytes() const;
  int64_t moved_bytes() const { return copies_.bytes(); }

 private:
  static constexpr int64_t kMostLeaving = int64_t{256} << 20;

  struct Entry {
    at::Tensor parameter, host;
    at::Tensor norm = {};  ///< of the sum so far
    memory::CopyMark left = {};
    bool has_value = false;
  };
  struct Leaving {
    at::Tensor gradient;
    memory::CopyMark left;
  };
  enum class Rehearsed : uint8_t { No, First, Adding };
  class Hook;

  void take(size_t parameter);
  at::Tensor added_to_sum(const Entry& entry, const at::Tensor& gradient);
  void let_leave(int64_t most);

  c10::Device device_;
  std::vector<Entry> entries_;
  std::deque<Leaving> leaving_;
  int64_t leaving_bytes_ = 0;
  int64_t most_leaving_ = 0;
  at::Tensor factor_;
  Rehearsed rehearsed_ = Rehearsed::No;
  memory::CopyStreams copies_;  // dies first: it waits for the copies
};

}  // namespace reprise
