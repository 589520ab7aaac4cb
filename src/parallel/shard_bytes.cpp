// The peak memory of the schedule in sharded_model.cpp.
#include "parallel/shard_bytes.h"

#include "dist/fake_world.h"
#include "parallel/sharded_model.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <vector>

namespace reprise {

namespace {

struct UnitBytes {
  int64_t gathered = 0;   // all parameters of the unit
  int64_t gradients = 0;  // their gradients, as backward makes them
  int64_t buffer = 0;     // the buffer in which they are reduced
  int64_t result = 0;     // this process's part of the sum, which it keeps
};

std::vector<UnitBytes> bytes_of(const std::vector<Unit>& units) {
  std::vector<UnitBytes> list;
  for (const Unit& unit : units) {
    UnitBytes& bytes = list.emplace_back();
    bytes.gathered = unit.whole_bytes();
    bytes.buffer = unit.gradient_bytes();
    for (const FlatGroup& group : unit.groups()) {
      bytes.gradients += group.is_trained() ? group.parameter_bytes() : 0;
      bytes.result += group.result_bytes();
    }
  }
  return list;
}

// The peak in forward. Backward runs in reverse and needs no more, because the top is freed before
// the last block is gathered.
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
  GradientsInBackward(const std::vector<UnitBytes>& units,
                      bool is_tied,
                      const ShardPlacement& placement)
      : is_sharded_(placement.options.strategy != Parallel::Ddp),
        accumulates_(placement.accumulation > 1) {
    // Gradients that exist before their unit's backward: those of earlier micro-batches, and those
    // that a tied head makes for the embeddings, which come last.
    const auto waits = [&](size_t i) {
      return (accumulates_ && !is_sharded_) || (is_tied && i == 0);
    };
    for (size_t i = 0; i < units.size(); ++i) {
      kept_ += accumulates_ && is_sharded_ ? units[i].result : 0;
      waiting_ += waits(i) ? units[i].gradients : 0;
    }
    for (size_t i = units.size(); i-- > 0;) {
      waiting_ += waits(i) ? 0 : units[i].gradients;
      reduce(units[i]);
    }
  }

  int64_t most() const { return most_; }

 private:
  void reduce(const UnitBytes& unit) {
    if (unit.buffer == 0) {
      return;  // frozen
    }
    see(kept_ + waiting_ + under_way_ + unit.buffer);
    waiting_ -= unit.gradients;
    if (!is_sharded_) {
      kept_ += unit.buffer;  // the sum is in the buffer
      return;
    }
    see(kept_ + waiting_ + under_way_ + unit.buffer + unit.result);
    // Starting a reduction waits for the one before it.
    kept_ += accumulates_ ? 0 : result_under_way_;
    under_way_ = unit.buffer + unit.result;
    result_under_way_ = unit.result;
  }

  void see(int64_t bytes) { most_ = std::max(most_, bytes); }

  bool is_sharded_, accumulates_;
  int64_t kept_ = 0;       // sums
  int64_t waiting_ = 0;    // gradients that are not reduced yet
  int64_t under_way_ = 0;  // the one pending reduction
  int64_t result_under_way_ = 0;
  int64_t most_ = 0;
};

void check(const Model& model, const ShardPlacement& placement) {
  TORCH_CHECK(model.device().is_meta(),
              "[parallel] bytes are predicted with a model of the meta device, got one on ",
              model.device());
  TORCH_CHECK(placement.size > 0 && placement.rank >= 0 && placement.rank < placement.size,
              "[parallel] expected a rank below the number of processes, got rank ",
              placement.rank,
              " of ",
              placement.size);
  TORCH_CHECK(!placement.options.cpu_offload,
              "[parallel] bytes cannot be predicted with cpu_offload: leave it off.");
}

}  // namespace

ShardBytes predict_shard_bytes(Model& model, const ShardPlacement& placement) {
  check(model, placement);
  const FakeWorld world(placement.rank, placement.size);
  ShardOptions options = placement.options;
  options.block_elements = block_elements(placement.optimizer.kind);
  const auto sharded = reprise::shard(model, world, options);
  model.set_sharded_parameters(nullptr);  // they refer to the world, which ends here
  const auto units = bytes_of(dynamic_cast<const ShardedUnits&>(*sharded).units());

  ShardBytes bytes;
  bytes.parameters = sharded->bytes();
  bytes.gathered = most_gathered(units, model.has_tied_head(), placement.options.prefetch);
  for (const UnitBytes& unit : units) {
    bytes.gradients += unit.result;
  }
  bytes.reductions =
      GradientsInBackward(units, model.has_tied_head(), placement).most() - bytes.gradients;
  bytes.optimizer = Optimizer::make(sharded->trained(), placement.optimizer)->bytes();
  return bytes;
}

}  // namespace reprise
