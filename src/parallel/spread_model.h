// The keeper of a spread model: when units are gathered, freed and reduced.
//
// Note [One gather for recompute and backward]
// In forward a unit's parameters come before it computes and go after. Its output is marked: when
// backward comes by, the parameters are gathered again, once for what is computed again and for
// backward, which both happen between this mark and the one on the unit's input. That second mark
// hands the gradients in and frees the parameters. A unit whose input needs no gradient has no
// second mark; end_backward() does its part.
#pragma once

#include "parallel/unit.h"

#include <reprise/parallel/spread.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace reprise {

class SpreadUnits final : public SpreadModel, public std::enable_shared_from_this<SpreadUnits> {
 public:
  /// `places`: which unit serves the embeddings, each block, and the top; the first and the last
  /// are the same for a tied head.
  SpreadUnits(std::vector<Unit> units,
              std::vector<size_t> places,
              const World& world,
              const SpreadOptions& options);

  at::Tensor enter(size_t place, at::Tensor x) override;
  at::Tensor leave(size_t place, at::Tensor y) override;
  const World& world() const override { return world_; }
  TensorPart part_of(const std::string& name, const at::Tensor& parameter) const override;
  void refresh() override;
  void settle() override;
  int64_t bytes() const override;
  void hold() override;
  void release() override;

  Parallel strategy() const override { return options_.strategy; }
  std::vector<TensorPart> trained() const override;
  bool is_sharded() const override { return options_.strategy != Parallel::Ddp; }
  void begin_micro_batch(bool is_last) override;
  void end_backward() override;
  void after_update() override;
  const TrafficCounts& traffic() const override { return traffic_; }

  const std::vector<Unit>& units() const { return units_; }

 private:
  bool is_tied() const { return places_.front() == places_.back(); }
  size_t top() const { return places_.size() - 1; }
  Unit& unit_at(size_t place) { return units_[places_[place]]; }
  void bring(size_t place, std::vector<int64_t>& gathers);
  void start_bringing(size_t place, std::vector<int64_t>& gathers);
  void backward_begins(size_t place);
  void backward_ends(size_t place);
  void reduce(size_t place);
  void finish_reductions(size_t but);
  void agree_on_gradients();
  void free_all();

  std::vector<Unit> units_;
  std::vector<size_t> places_;
  const World& world_;
  SpreadOptions options_;
  TrafficCounts traffic_;
  std::vector<bool> has_backward_;  // by place: its output is marked in the graph at hand
  std::deque<size_t> reducing_;     // places whose gradients are on their way
  int held_ = 0;
  bool is_agreed_ = false;  // which parameters have gradients
  bool reduces_ = true;     // gradients go out in this micro-batch
  int awaited_ = 0;         // backwards through the top that are to come
};

}  // namespace reprise
