#include "parallel/spread_model.h"

#include "parallel/unit_marks.h"

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace reprise {

SpreadUnits::SpreadUnits(std::vector<Unit> units,
                         std::vector<size_t> places,
                         const World& world,
                         const SpreadOptions& options)
    : units_(std::move(units)),
      places_(std::move(places)),
      world_(world),
      options_(options),
      has_backward_(places_.size()) {
  traffic_.forward_gathers.resize(places_.size());
  traffic_.backward_gathers.resize(places_.size());
  traffic_.reductions.resize(places_.size());
}

void SpreadUnits::start_bringing(size_t place, std::vector<int64_t>& gathers) {
  Unit& unit = unit_at(place);
  if (held_ == 0 && unit.start_gather()) {
    ++gathers[place];
    traffic_.bytes_gathered += unit.whole_bytes() * (world_.size() - 1) / world_.size();
  }
}

void SpreadUnits::bring(size_t place, std::vector<int64_t>& gathers) {
  start_bringing(place, gathers);
  unit_at(place).finish_gather();
}

at::Tensor SpreadUnits::enter(size_t place, at::Tensor x) {
  bring(place, traffic_.forward_gathers);
  if (options_.prefetch && place < top()) {
    start_bringing(place + 1, traffic_.forward_gathers);
  }
  if (!x.defined()) {
    return x;
  }
  if (place == top() && at::GradMode::is_enabled() && x.requires_grad()) {
    ++awaited_;
  }
  return marked(std::move(x), [self = weak_from_this(), place] {
    if (const auto spread = self.lock()) {
      spread->backward_ends(place);
    }
  });
}

at::Tensor SpreadUnits::leave(size_t place, at::Tensor y) {
  const bool stays = place == 0 && is_tied();
  if (held_ == 0 && !stays) {
    unit_at(place).free();
  }
  if (place == 0) {
    return y;  // backward through embeddings needs no values of theirs
  }
  if (at::GradMode::is_enabled()) {
    has_backward_[place] = y.requires_grad();
  }
  return marked(std::move(y), [self = weak_from_this(), place] {
    if (const auto spread = self.lock()) {
      spread->backward_begins(place);
    }
  });
}

void SpreadUnits::backward_begins(size_t place) {
  bring(place, traffic_.backward_gathers);
  if (options_.prefetch && place > 1 && has_backward_[place - 1]) {
    start_bringing(place - 1, traffic_.backward_gathers);
  }
}

void SpreadUnits::backward_ends(size_t place) {
  if (place == top()) {
    --awaited_;
    if (is_tied() || awaited_ > 0) {
      return;  // the embeddings' gradient is to come, or another pass's
    }
  }
  // First freed, then handed in: handing in needs no values. And the block that comes next is on
  // its way before the head's gradients, the largest of all, take the line.
  if (held_ == 0) {
    unit_at(place).free();
  }
  if (options_.prefetch && place == top() && has_backward_[place - 1]) {
    start_bringing(place - 1, traffic_.backward_gathers);
  }
  reduce(place);
}

void SpreadUnits::reduce(size_t place) {
  if (!reduces_ || !unit_at(place).start_reduction()) {
    return;
  }
  ++traffic_.reductions[place];
  traffic_.bytes_reduced += unit_at(place).gradient_bytes();
  reducing_.push_back(place);
  if (is_sharded()) {  // whole sums stay as the gradients, so that waiting for one frees nothing
    finish_reductions(/*but=*/1);
  }
}

// The oldest first, until so many are left: each holds a unit's gradients.
void SpreadUnits::finish_reductions(size_t but) {
  while (reducing_.size() > but) {
    unit_at(reducing_.front()).finish_reduction();
    reducing_.pop_front();
  }
}

void SpreadUnits::begin_micro_batch(bool is_last) {
  // Without cuts, gradients add up here until the step's last micro-batch.
  reduces_ = is_last || options_.strategy != Parallel::Ddp;
  awaited_ = 0;
  if (held_ == 0) {
    free_all();
  }
  std::fill(has_backward_.begin(), has_backward_.end(), false);
  for (Unit& unit : units_) {
    for (FlatGroup& group : unit.groups()) {
      group.begin_micro_batch();
    }
  }
}

void SpreadUnits::end_backward() {
  // In the order that backward has: what is left are units without a mark on their input.
  for (size_t place = places_.size(); place-- > 0;) {
    if (place != 0 || !is_tied()) {
      reduce(place);
    }
  }
  finish_reductions(/*but=*/0);
  if (reduces_ && !is_agreed_) {
    agree_on_gradients();
  }
  awaited_ = 0;
  if (held_ == 0) {
    free_all();
  }
}

void SpreadUnits::after_update() {
  if (options_.strategy == Parallel::Zero2) {
    refresh();
  }
}

void SpreadUnits::refresh() {
  settle();  // what is gathered is what was
  for (Unit& unit : units_) {
    unit.start_sharing();
  }
  for (Unit& unit : units_) {
    unit.finish_gather();
  }
}

void SpreadUnits::agree_on_gradients() {
  std::string own;
  for (const Unit& unit : units_) {
    for (const FlatGroup& group : unit.groups()) {
      own += group.gradients_seen();
    }
  }
  std::string all(own.size(), '0');
  for (const std::string& seen : world_.gather(own, "which parameters have gradients")) {
    TORCH_CHECK(seen.size() == all.size(), "[parallel] processes have spread different models.");
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

void SpreadUnits::settle() {
  if (held_ == 0 && awaited_ == 0) {
    free_all();
  }
}

void SpreadUnits::free_all() {
  for (Unit& unit : units_) {
    unit.free();
  }
}

void SpreadUnits::hold() {
  if (held_ == 0) {
    for (size_t place = 0; place < places_.size(); ++place) {
      start_bringing(place, traffic_.forward_gathers);
    }
    for (Unit& unit : units_) {
      unit.finish_gather();
    }
  }
  ++held_;
}

void SpreadUnits::release() {
  TORCH_INTERNAL_ASSERT(held_ > 0);
  if (--held_ == 0) {
    settle();
  }
}

int64_t SpreadUnits::bytes() const {
  int64_t bytes = 0;
  for (const Unit& unit : units_) {
    for (const FlatGroup& group : unit.groups()) {
      bytes += group.resident_bytes();
    }
  }
  return bytes;
}

std::vector<TensorPart> SpreadUnits::trained() const {
  std::vector<TensorPart> parts;
  for (const Unit& unit : units_) {
    for (const FlatGroup& group : unit.groups()) {
      group.add_trained(parts);
    }
  }
  return parts;
}

TensorPart SpreadUnits::part_of(const std::string& name, const at::Tensor& parameter) const {
  for (const Unit& unit : units_) {
    for (const FlatGroup& group : unit.groups()) {
      if (auto part = group.part_of(name, parameter)) {
        return *std::move(part);
      }
    }
  }
  TORCH_CHECK(false, "[parallel] ", name, " was no parameter of the model when it was spread.");
}

}  // namespace reprise
