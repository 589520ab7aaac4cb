// The gradients of a group: from the parameters into one buffer, and from its sum to the parts.
//
// Note [Which parameters have a gradient]
// A parameter that backward does not reach is left alone by the optimizer, so that it must be known
// which have a gradient, and all processes must know the same: what one would not hand in the
// others would wait for. In the first reduction every parameter counts, with zeros where there is
// nothing; then the processes agree on those that had one anywhere, and from then on these are
// summed.
#include "parallel/flat_group.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace reprise {

namespace {

// Sums are kept in float32 at least, whatever they were sent in: micro-batches add up in them.
at::ScalarType kept_type(at::ScalarType reduce_dtype) {
  return c10::promoteTypes(reduce_dtype, at::kFloat);
}

}  // namespace

int64_t FlatGroup::gradient_bytes() const {
  return is_trained_ ? chunk_ * world_.size() *
                           static_cast<int64_t>(c10::elementSize(settings_.reduce_dtype))
                     : 0;
}

// A part may be of gaps only: then nobody has gradients that would keep the result.
int64_t FlatGroup::result_bytes() const {
  const bool has_any = std::any_of(members_.begin(), members_.end(), [](const Member& member) {
    return member.values.numel() > 0;
  });
  const int64_t elements = settings_.sums_whole ? chunk_ * world_.size() : chunk_;
  const auto bytes = static_cast<int64_t>(c10::elementSize(kept_type(settings_.reduce_dtype)));
  return has_any && is_trained_ ? elements * bytes : 0;
}

void FlatGroup::zero_gaps(const at::Tensor& flat) const {
  int64_t end = 0;
  const auto zero_until = [&](int64_t begin) {
    if (begin > end) {
      flat.narrow(0, end, begin - end).zero_();
    }
  };
  for (const Member& member : members_) {
    zero_until(member.begin);
    end = member.begin + (member.parameter.grad().defined() ? member.count : 0);
  }
  zero_until(flat.numel());
}

bool FlatGroup::start_reduction(const std::string& what) {
  const at::NoGradGuard no_grad;
  const auto any = [&](auto&& holds) {
    return std::any_of(members_.begin(), members_.end(), holds);
  };
  const bool is_due =
      !is_reduced_ && (!is_agreed_ || any([](const Member& each) { return each.has_gradient; }));
  if (!is_due && !any([](const Member& each) { return each.parameter.grad().defined(); })) {
    return false;
  }
  finish_reduction();  // of another pass through the same unit
  is_reduced_ = true;
  gradients_ = at::empty({chunk_ * world_.size()}, whole_.options().dtype(settings_.reduce_dtype));
  zero_gaps(gradients_);
  for (Member& member : members_) {
    if (!member.parameter.grad().defined()) {
      continue;
    }
    TORCH_CHECK(!is_agreed_ || member.has_gradient,
                "[parallel] ",
                member.name,
                " has a gradient for the first time after the first micro-batch: parameters of a "
                "spread model are trained from the beginning, or frozen before it is spread.");
    member.has_gradient = true;
    gradients_.narrow(0, member.begin, member.count).copy_(member.parameter.grad().reshape({-1}));
    member.parameter.mutable_grad().reset();
  }
  if (settings_.sums_whole) {
    reduction_ = world_.start_sum(gradients_, what);
  } else {
    reduced_ = at::empty({chunk_}, gradients_.options());
    reduction_ = world_.start_reduce(reduced_, gradients_, what);
  }
  return true;
}

void FlatGroup::finish_reduction() {
  if (reduction_ == nullptr) {
    return;
  }
  const at::NoGradGuard no_grad;
  std::exchange(reduction_, nullptr)->wait();
  auto sums = settings_.sums_whole ? std::exchange(gradients_, at::Tensor())
                                   : std::exchange(reduced_, at::Tensor());
  gradients_.reset();
  // In main memory the copy waits for the device: after the last of them nothing reads the parts
  // any more, so that an optimizer may write to them.
  sums = sums.to(part_.device(), kept_type(settings_.reduce_dtype));
  const int64_t own = settings_.sums_whole ? 0 : world_.rank() * chunk_;
  for (Member& member : members_) {
    const int64_t count = member.values.numel();
    if ((is_agreed_ && !member.has_gradient) || count == 0) {
      continue;
    }
    const int64_t first = member.begin + (settings_.sums_whole ? 0 : member.kept_begin) - own;
    const auto sum = sums.narrow(0, first, count);
    auto& gradient = member.values.mutable_grad();
    if (gradient.defined()) {
      gradient.add_(sum);
    } else {
      gradient = sum;
    }
  }
}

std::string FlatGroup::gradients_seen() const {
  std::string seen;
  for (const Member& member : members_) {
    seen += member.has_gradient ? '1' : '0';
  }
  return seen;
}

void FlatGroup::agree_on_gradients(std::string_view seen) {
  for (size_t i = 0; i < members_.size(); ++i) {
    members_[i].has_gradient = seen[i] == '1';
    if (!members_[i].has_gradient) {
      members_[i].values.mutable_grad().reset();
    }
  }
  is_agreed_ = true;
}

}  // namespace reprise
