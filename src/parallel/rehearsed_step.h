// A step of a sharded model that a process runs by itself: Note [Rehearsals].
#pragma once

#include "dist/rehearsal.h"

#include <reprise/parallel/shard.h>

namespace reprise {

class RehearsedStep {
 public:
  explicit RehearsedStep(ShardedModel& model) : model_(model), alone_(model.world()) {
    model_.begin_rehearsal();
  }
  ~RehearsedStep() { model_.end_rehearsal(); }
  RehearsedStep(const RehearsedStep&) = delete;
  RehearsedStep& operator=(const RehearsedStep&) = delete;

 private:
  ShardedModel& model_;
  const dist::Rehearsal alone_;
};

}  // namespace reprise
