// Reduces the gradients of a group: copies them into one buffer, sums it over the processes, and
// adds the result to the gradients of the parts.
//
// Note [Which parameters have a gradient]
// The optimizer must not update a parameter that backward does not reach, so it must be known which
// parameters have a gradient. All processes must agree on it, because they wait for each other's
// gradients. The first reduction covers every parameter, with zeros for missing gradients. Then the
// processes agree on those that had a gradient in any of them, and later reductions cover only
// these.
#include "parallel/flat_group.h"

#include "plan/measure/gradient_hooks.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace reprise {

namespace {

// Sums are stored in at least float32, whatever dtype they were reduced in, because micro-batches
// are accumulated in them.
at::ScalarType kept_type(at::ScalarType reduce_dtype) {
  return c10::promoteTypes(reduce_dtype, at::kFloat);
}

}  // namespace

int64_t FlatGroup::gradient_bytes() const {
  return is_trained_ ? part_numel_ * world_.size() *
                           static_cast<int64_t>(c10::elementSize(settings_.reduce_dtype))
                     : 0;
}

// A part may consist of padding only. Then the result is not stored.
int64_t FlatGroup::result_bytes() const {
  const bool has_any = std::any_of(members_.begin(), members_.end(), [](const Member& member) {
    return member.values.numel() > 0;
  });
  const int64_t elements = settings_.sums_whole ? part_numel_ * world_.size() : part_numel_;
  const auto bytes = static_cast<int64_t>(c10::elementSize(kept_type(settings_.reduce_dtype)));
  return has_any && is_trained_ ? elements * bytes : 0;
}

void FlatGroup::zero_padding(const at::Tensor& flat) const {
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
  finish_reduction();  // of an earlier pass through the same unit
  is_reduced_ = true;
  gradients_ =
      at::empty({part_numel_ * world_.size()}, whole_.options().dtype(settings_.reduce_dtype));
  zero_padding(gradients_);
  for (Member& member : members_) {
    if (!member.parameter.grad().defined()) {
      continue;
    }
    TORCH_CHECK(!is_agreed_ || member.has_gradient,
                "[parallel] ",
                member.name,
                " has a gradient for the first time after the first micro-batch: parameters of a "
                "sharded model must be trained from the start, or frozen before it is sharded.");
    member.has_gradient = true;
    gradients_.narrow(0, member.begin, member.count).copy_(member.parameter.grad().reshape({-1}));
    member.parameter.mutable_grad().reset();
  }
  if (settings_.sums_whole) {
    reduction_ = world_.start_all_reduce(gradients_, what);
  } else {
    reduced_ = at::empty({part_numel_}, gradients_.options());
    reduction_ = world_.start_reduce_scatter(reduced_, gradients_, what);
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
  // A copy to host memory synchronizes with the device, so after the last one nothing reads the
  // parts any more and an optimizer may write to them.
  sums = sums.to(part_.device(), kept_type(settings_.reduce_dtype));
  const int64_t own = settings_.sums_whole ? 0 : world_.rank() * part_numel_;
  const Member* first_in_place = nullptr;
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
      first_in_place = first_in_place == nullptr ? &member : first_in_place;
    }
  }
  if (first_in_place != nullptr) {
    planning::announce_gradient(first_in_place->values);  // all share one storage
  }
}

FlatGroup::Gradients FlatGroup::set_gradients_aside() {
  Gradients aside{.is_agreed = is_agreed_};
  for (Member& member : members_) {
    aside.of_members.emplace_back(member.has_gradient,
                                  std::exchange(member.values.mutable_grad(), at::Tensor()));
  }
  return aside;
}

void FlatGroup::put_back(Gradients gradients) {
  finish_gather();
  reduction_.reset();
  gradients_.reset();
  reduced_.reset();
  is_agreed_ = gradients.is_agreed;
  for (size_t i = 0; i < members_.size(); ++i) {
    auto& [has_gradient, gradient] = gradients.of_members[i];
    members_[i].has_gradient = has_gradient;
    members_[i].values.mutable_grad() = std::move(gradient);
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
