// The schedule of a sharded model: when units are gathered, freed and reduced.
//
// Note [One gather for recompute and backward]
// In forward the parameters of a unit are gathered before it runs and freed after. Its output gets
// a backward hook that gathers them again: once for both the recompute and the backward of the
// unit, which run between this hook and the one on the unit's input. The hook on the input frees
// the parameters and reduces the gradients. A unit whose input needs no gradient has no such hook;
// end_backward() does its work.
#pragma once

#include "parallel/unit.h"

#include <reprise/parallel/shard.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace reprise {

class ShardedUnits final : public ShardedModel, public std::enable_shared_from_this<ShardedUnits> {
 public:
  /// `unit_index` gives the unit of each position: embeddings, blocks, top. A tied head is in the
  /// same unit as the embeddings.
  ShardedUnits(std::vector<Unit> units,
               std::vector<size_t> unit_index,
               const World& world,
               const ShardOptions& options);

  at::Tensor enter(size_t position, at::Tensor x) override;
  at::Tensor leave(size_t position, at::Tensor y) override;
  const World& world() const override { return world_; }
  TensorPart part_of(const std::string& name, const at::Tensor& parameter) const override;
  void refresh() override;
  void settle() override;
  int64_t bytes() const override;
  void unshard() override;
  void reshard() override;

  Parallel strategy() const override { return options_.strategy; }
  std::vector<TensorPart> trained() const override;
  bool is_sharded() const override { return options_.strategy != Parallel::Ddp; }
  void begin_micro_batch(bool is_last) override;
  void end_backward() override;
  void after_update() override;
  void begin_rehearsal() override;
  void end_rehearsal() override;
  int64_t gradient_bytes() const override;
  const TrafficCounts& traffic() const override { return traffic_; }

  const std::vector<Unit>& units() const { return units_; }

  /// A table of embeddings is not read in backward; a norm or a projection after it is.
  void set_backward_reads_embeddings(bool reads) { backward_reads_embeddings_ = reads; }

 private:
  bool is_tied() const { return unit_index_.front() == unit_index_.back(); }
  size_t top() const { return unit_index_.size() - 1; }
  Unit& unit_at(size_t position) { return units_[unit_index_[position]]; }
  void gather(size_t position, std::vector<int64_t>& gathers);
  void start_gather(size_t position, std::vector<int64_t>& gathers);
  void backward_begins(size_t position);
  void backward_ends(size_t position);
  void reduce(size_t position);
  void finish_reductions(size_t keep);
  void agree_on_gradients();
  void free_all();
  void reset_passes();

  /// What a rehearsal must not change.
  struct BeforeRehearsal {
    std::vector<FlatGroup::Gradients> gradients;  // by unit and group
    TrafficCounts traffic;
    bool is_agreed = false;
  };

  std::vector<Unit> units_;
  std::vector<size_t> unit_index_;
  const World& world_;
  ShardOptions options_;
  TrafficCounts traffic_;
  std::vector<bool> has_backward_;         // by position: backward will pass its output
  std::deque<size_t> pending_reductions_;  // positions
  int unshard_depth_ = 0;                  // calls of unshard() without reshard()
  bool backward_reads_embeddings_ = false;
  bool is_agreed_ = false;       // the processes know which parameters have gradients
  bool reduces_ = true;          // gradients are reduced in this micro-batch
  int pending_backwards_ = 0;    // passes through the top whose backward is to come
  bool gathers_copies_ = false;  // the last gather was one of a rehearsal
  std::optional<BeforeRehearsal> before_rehearsal_;
};

}  // namespace reprise
