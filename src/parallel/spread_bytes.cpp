// The schedule of spread_model.cpp in bytes: what is there at the fullest moment of a pass.
#include <reprise/parallel/spread_bytes.h>

#include "dist/lonely_world.h"
#include "parallel/spread_model.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <vector>

namespace reprise {

namespace {

/// Of one unit.
struct UnitBytes {
  int64_t gathered = 0;   // all of its parameters
  int64_t gradients = 0;  // of all of them, as backward makes them
  int64_t handed_in = 0;  // the buffer that they are summed in
  int64_t result = 0;     // what this process gets of the sum, and keeps
};

std::vector<UnitBytes> bytes_of(const std::vector<Unit>& units) {
  std::vector<UnitBytes> list;
  for (const Unit& unit : units) {
    UnitBytes& bytes = list.emplace_back();
    bytes.gathered = unit.whole_bytes();
    bytes.handed_in = unit.gradient_bytes();
    for (const FlatGroup& group : unit.groups()) {
      bytes.gradients += group.is_trained() ? group.parameter_bytes() : 0;
      bytes.result += group.result_bytes();
    }
  }
  return list;
}

// In forward; backward goes the other way and has no more: the top is freed before the last block
// comes.
int64_t most_gathered(const std::vector<UnitBytes>& units, bool is_tied, bool prefetches) {
  const int64_t stays = is_tied ? units.front().gathered : 0;
  int64_t most = 0;
  for (size_t i = 0; i < units.size(); ++i) {
    const int64_t own = i == 0 && is_tied ? 0 : units[i].gathered;
    const int64_t next = prefetches && i + 1 < units.size() ? units[i + 1].gathered : 0;
    most = std::max(most, stays + own + next);
  }
  return most;
}

/// The most bytes of gradients in the last backward of a step.
class GradientsInBackward {
 public:
  GradientsInBackward(const std::vector<UnitBytes>& units, bool is_tied, const SpreadPlace& place)
      : is_cut_(place.options.strategy != Parallel::Ddp), accumulates_(place.accumulation > 1) {
    // Those of earlier micro-batches, and those that a tied head's backward makes for the unit that
    // comes last.
    const auto waits = [&](size_t i) { return (accumulates_ && !is_cut_) || (is_tied && i == 0); };
    for (size_t i = 0; i < units.size(); ++i) {
      kept_ += accumulates_ && is_cut_ ? units[i].result : 0;
      waiting_ += waits(i) ? units[i].gradients : 0;
    }
    for (size_t i = units.size(); i-- > 0;) {
      waiting_ += waits(i) ? 0 : units[i].gradients;
      hand_in(units[i]);
    }
  }

  int64_t most() const { return most_; }

 private:
  void hand_in(const UnitBytes& unit) {
    if (unit.handed_in == 0) {
      return;  // frozen
    }
    see(kept_ + waiting_ + under_way_ + unit.handed_in);
    waiting_ -= unit.gradients;
    if (!is_cut_) {
      kept_ += unit.handed_in;  // the sum is in the buffer
      return;
    }
    see(kept_ + waiting_ + under_way_ + unit.handed_in + unit.result);
    // Now the one before it is waited for.
    kept_ += accumulates_ ? 0 : result_under_way_;
    under_way_ = unit.handed_in + unit.result;
    result_under_way_ = unit.result;
  }

  void see(int64_t bytes) { most_ = std::max(most_, bytes); }

  bool is_cut_, accumulates_;
  int64_t kept_ = 0;       // sums
  int64_t waiting_ = 0;    // gradients of units that have not handed them in
  int64_t under_way_ = 0;  // one reduction at a time
  int64_t result_under_way_ = 0;
  int64_t most_ = 0;
};

void check(const Model& model, const SpreadPlace& place) {
  TORCH_CHECK(model.device().is_meta(),
              "[parallel] bytes are predicted with a model of the meta device, got one on ",
              model.device());
  TORCH_CHECK(place.size > 0 && place.rank >= 0 && place.rank < place.size,
              "[parallel] expected a place among at least one process, got ",
              place.rank,
              " of ",
              place.size);
  TORCH_CHECK(!place.options.cpu_offload,
              "[parallel] bytes are predicted of a device that has the parts itself: leave "
              "cpu_offload out.");
}

}  // namespace

SpreadBytes predict_spread_bytes(Model& model, const SpreadPlace& place) {
  check(model, place);
  const LonelyWorld world(place.rank, place.size);
  const auto spread = reprise::spread(model, world, place.options);
  model.set_keeper(nullptr);  // which needs the world
  const auto units = bytes_of(dynamic_cast<const SpreadUnits&>(*spread).units());

  SpreadBytes bytes;
  bytes.parameters = spread->bytes();
  bytes.gathered = most_gathered(units, model.has_tied_head(), place.options.prefetch);
  for (const UnitBytes& unit : units) {
    bytes.gradients += unit.result;
  }
  bytes.reductions =
      GradientsInBackward(units, model.has_tied_head(), place).most() - bytes.gradients;
  bytes.optimizer = Optimizer::make(spread->trained(), place.optimizer)->bytes();
  return bytes;
}

}  // namespace reprise
