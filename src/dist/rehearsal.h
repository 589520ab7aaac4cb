// A process that runs part of a step by itself, to see which bytes and how much time it takes.
//
// Note [Rehearsals]
// ~~~~~~~~~~~~~~~~~
// A memory budget needs the trace of a step before the step runs. Each process has micro-batches of
// its own shapes, and so traces at other times than the others, which would leave it waiting in the
// first collective. In a rehearsal collectives return at once, as in a FakeWorld: with copies of
// the process's own part for the parts of the others, and its own values for sums. Everything that
// is allocated and computed is as in a real step; only values differ, and traces have none.
#pragma once

#include "dist/fake_world.h"

#include <reprise/dist/world.h>

#include <atomic>
#include <cstdint>

namespace reprise::dist {

/// A world whose collectives can be rehearsed.
class Rehearsable {
 public:
  Rehearsable(int64_t rank, int64_t size) : alone_(rank, size) {}
  virtual ~Rehearsable() = default;
  Rehearsable(const Rehearsable&) = delete;
  Rehearsable& operator=(const Rehearsable&) = delete;

 protected:
  /// What answers collectives now; null: the other processes.
  const World* stand_in() const { return rehearsals_ > 0 ? &alone_ : nullptr; }

 private:
  friend class Rehearsal;
  friend bool is_rehearsing(const World& world);

  const FakeWorld alone_;
  mutable std::atomic<int> rehearsals_{0};
};

/// While it lives, collectives of `world` return at once. A world without others needs none.
class Rehearsal {
 public:
  explicit Rehearsal(const World& world) : world_(dynamic_cast<const Rehearsable*>(&world)) {
    if (world_ != nullptr) {
      ++world_->rehearsals_;
    }
  }
  ~Rehearsal() {
    if (world_ != nullptr) {
      --world_->rehearsals_;
    }
  }
  Rehearsal(const Rehearsal&) = delete;
  Rehearsal& operator=(const Rehearsal&) = delete;

 private:
  const Rehearsable* const world_;
};

inline bool is_rehearsing(const World& world) {
  const auto* rehearsable = dynamic_cast<const Rehearsable*>(&world);
  return rehearsable != nullptr && rehearsable->stand_in() != nullptr;
}

}  // namespace reprise::dist
