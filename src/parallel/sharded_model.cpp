#include "parallel/sharded_model.h"

#include "dist/rehearsal.h"
#include "parallel/backward_hook.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace reprise {

ShardedUnits::ShardedUnits(std::vector<Unit> units,
                           std::vector<size_t> unit_index,
                           const World& world,
                           const ShardOptions& options)
    : units_(std::move(units)),
      unit_index_(std::move(unit_index)),
      world_(world),
      options_(options),
      has_backward_(unit_index_.size()) {
  traffic_.forward_gathers.resize(unit_index_.size());
  traffic_.backward_gathers.resize(unit_index_.size());
  traffic_.reductions.resize(unit_index_.size());
}

void ShardedUnits::start_gather(size_t position, std::vector<int64_t>& gathers) {
  Unit& unit = unit_at(position);
  // What a rehearsal gathers are no values (a unit of a frozen model may stay until the next pass).
  if (dist::is_rehearsing(world_) != gathers_copies_) {
    gathers_copies_ = !gathers_copies_;
    settle();
  }
  if (unshard_depth_ == 0 && unit.start_gather()) {
    ++gathers[position];
    traffic_.bytes_gathered += unit.whole_bytes() * (world_.size() - 1) / world_.size();
  }
}

void ShardedUnits::gather(size_t position, std::vector<int64_t>& gathers) {
  start_gather(position, gathers);
  unit_at(position).finish_gather();
}

at::Tensor ShardedUnits::enter(size_t position, at::Tensor x) {
  gather(position, traffic_.forward_gathers);
  if (options_.prefetch && position < top()) {
    start_gather(position + 1, traffic_.forward_gathers);
  }
  if (!x.defined()) {
    return x;
  }
  if (position == top() && at::GradMode::is_enabled() && x.requires_grad()) {
    ++pending_backwards_;
  }
  return with_backward_hook(std::move(x), [self = weak_from_this(), position] {
    if (const auto sharded = self.lock()) {
      sharded->backward_ends(position);
    }
  });
}

at::Tensor ShardedUnits::leave(size_t position, at::Tensor y) {
  const bool stays = position == 0 && is_tied();
  if (unshard_depth_ == 0 && !stays) {
    unit_at(position).free();
  }
  if (position == 0 && !backward_reads_embeddings_) {
    return y;
  }
  if (at::GradMode::is_enabled()) {
    has_backward_[position] = y.requires_grad();
  }
  return with_backward_hook(std::move(y), [self = weak_from_this(), position] {
    if (const auto sharded = self.lock()) {
      sharded->backward_begins(position);
    }
  });
}

void ShardedUnits::backward_begins(size_t position) {
  gather(position, traffic_.backward_gathers);
  if (options_.prefetch && position > 1 && has_backward_[position - 1]) {
    start_gather(position - 1, traffic_.backward_gathers);
  }
}

void ShardedUnits::backward_ends(size_t position) {
  if (position == top()) {
    --pending_backwards_;
    if (is_tied() || pending_backwards_ > 0) {
      return;  // the gradient of the embeddings, or of another pass, is still to come
    }
  }
  // Free first, because the reduction does not need the values. And start to gather the next block
  // before the gradients of the head, which are the largest, occupy the network.
  if (unshard_depth_ == 0) {
    unit_at(position).free();
  }
  if (options_.prefetch && position == top() && has_backward_[position - 1]) {
    start_gather(position - 1, traffic_.backward_gathers);
  }
  reduce(position);
}

void ShardedUnits::reduce(size_t position) {
  if (!reduces_ || !unit_at(position).start_reduction()) {
    return;
  }
  ++traffic_.reductions[position];
  traffic_.bytes_reduced += unit_at(position).gradient_bytes();
  pending_reductions_.push_back(position);
  if (is_sharded()) {  // under ddp the sums stay as gradients, so waiting would free nothing
    finish_reductions(/*keep=*/1);
  }
}

// Finishes the oldest reductions until `keep` are left. Each holds the gradients of a unit.
void ShardedUnits::finish_reductions(size_t keep) {
  while (pending_reductions_.size() > keep) {
    unit_at(pending_reductions_.front()).finish_reduction();
    pending_reductions_.pop_front();
  }
}

void ShardedUnits::reset_passes() {
  pending_backwards_ = 0;
  if (unshard_depth_ == 0) {
    free_all();
  }
  std::fill(has_backward_.begin(), has_backward_.end(), false);
}

void ShardedUnits::begin_micro_batch(bool is_last) {
  // Under ddp, gradients are accumulated locally until the last micro-batch of the step.
  reduces_ = is_last || options_.strategy != Parallel::Ddp;
  reset_passes();
  for (Unit& unit : units_) {
    for (FlatGroup& group : unit.groups()) {
      group.begin_micro_batch();
    }
  }
}

void ShardedUnits::end_backward() {
  // In backward order: what is left are units without a hook on their input.
  for (size_t position = unit_index_.size(); position-- > 0;) {
    if (position != 0 || !is_tied()) {
      reduce(position);
    }
  }
  finish_reductions(/*keep=*/0);
  if (reduces_ && !is_agreed_) {
    agree_on_gradients();
  }
  pending_backwards_ = 0;
  if (unshard_depth_ == 0) {
    free_all();
  }
}

void ShardedUnits::after_update() {
  if (options_.strategy == Parallel::Zero2) {
    refresh();
  }
}

void ShardedUnits::begin_rehearsal() {
  TORCH_INTERNAL_ASSERT(!before_rehearsal_ && pending_reductions_.empty());
  BeforeRehearsal before{.traffic = traffic_, .is_agreed = is_agreed_};
  for (Unit& unit : units_) {
    for (FlatGroup& group : unit.groups()) {
      before.gradients.push_back(group.set_gradients_aside());
    }
  }
  before_rehearsal_ = std::move(before);
}

void ShardedUnits::end_rehearsal() {
  TORCH_INTERNAL_ASSERT(before_rehearsal_);
  auto before = *std::exchange(before_rehearsal_, std::nullopt);
  pending_reductions_.clear();
  auto gradients = before.gradients.begin();
  for (Unit& unit : units_) {
    for (FlatGroup& group : unit.groups()) {
      group.put_back(std::move(*gradients++));
    }
  }
  traffic_ = std::move(before.traffic);
  is_agreed_ = before.is_agreed;
  reset_passes();
}

// Under ddp, parameters have gradients of their own until their sums take over.
int64_t ShardedUnits::gradient_bytes() const {
  int64_t bytes = 0;
  for (const Unit& unit : units_) {
    for (const FlatGroup& group : unit.groups()) {
      const bool is_whole = options_.strategy == Parallel::Ddp && group.is_trained();
      const int64_t own = is_whole ? group.parameter_bytes() : 0;
      bytes += options_.cpu_offload ? 0 : std::max(own, group.result_bytes());
    }
  }
  return bytes;
}

void ShardedUnits::refresh() {
  settle();  // gathered parameters are stale
  for (Unit& unit : units_) {
    unit.start_sync();
  }
  for (Unit& unit : units_) {
    unit.finish_gather();
  }
}

void ShardedUnits::agree_on_gradients() {
  std::string own;
  for (const Unit& unit : units_) {
    for (const FlatGroup& group : unit.groups()) {
      own += group.gradients_seen();
    }
  }
  std::string all(own.size(), '0');
  for (const std::string& seen : world_.all_gather(own, "which parameters have gradients")) {
    TORCH_CHECK(seen.size() == all.size(),
                "[parallel] the processes have sharded different models.");
    std::transform(all.begin(), all.end(), seen.begin(), all.begin(), [](char a, char b) {
      return std::max(a, b);
    });
  }
  std::string_view rest = all;
  for (Unit& unit : units_) {
    for (FlatGroup& group : unit.groups()) {
      const size_t count = group.gradients_seen().size();
      group.agree_on_gradients(rest.substr(0, count));
      rest.remove_prefix(count);
    }
  }
  is_agreed_ = true;
}

void ShardedUnits::settle() {
  if (unshard_depth_ == 0 && pending_backwards_ == 0) {
    free_all();
  }
}

void ShardedUnits::free_all() {
  for (Unit& unit : units_) {
    unit.free();
  }
}

void ShardedUnits::unshard() {
  if (unshard_depth_ == 0) {
    for (size_t position = 0; position < unit_index_.size(); ++position) {
      start_gather(position, traffic_.forward_gathers);
    }
    for (Unit& unit : units_) {
      unit.finish_gather();
    }
  }
  ++unshard_depth_;
}

void ShardedUnits::reshard() {
  TORCH_INTERNAL_ASSERT(unshard_depth_ > 0);
  if (--unshard_depth_ == 0) {
    settle();
  }
}

int64_t ShardedUnits::bytes() const {
  int64_t bytes = 0;
  for (const Unit& unit : units_) {
    for (const FlatGroup& group : unit.groups()) {
      bytes += group.resident_bytes();
    }
  }
  return bytes;
}

std::vector<TensorPart> ShardedUnits::trained() const {
  std::vector<TensorPart> parts;
  for (const Unit& unit : units_) {
    for (const FlatGroup& group : unit.groups()) {
      group.add_trained(parts);
    }
  }
  return parts;
}

TensorPart ShardedUnits::part_of(const std::string& name, const at::Tensor& parameter) const {
  for (const Unit& unit : units_) {
    for (const FlatGroup& group : unit.groups()) {
      if (auto part = group.part_of(name, parameter)) {
        return *std::move(part);
      }
    }
  }
  TORCH_CHECK(false, "[parallel] ", name, " was not a parameter of the model when it was sharded.");
}

}  // namespace reprise
