#include "checkpoint/thread_switches.h"

#include <reprise/checkpoint.h>

#include <utility>

namespace reprise {
namespace detail {
namespace {

thread_local int recomputing_depth = 0;  // recomputes may be nested
thread_local std::optional<bool> early_stop;

}  // namespace

std::optional<bool> early_stop_in_scope() {
  return early_stop;
}

RecomputingGuard::RecomputingGuard(std::optional<bool> early_stop_of_forward)
    : previous_(std::exchange(early_stop, early_stop_of_forward)) {
  ++recomputing_depth;
}

RecomputingGuard::~RecomputingGuard() {
  --recomputing_depth;
  early_stop = previous_;
}

}  // namespace detail

bool is_recomputing() {
  return detail::recomputing_depth > 0;
}

EarlyStopGuard::EarlyStopGuard(bool enabled)
    : previous_(std::exchange(detail::early_stop, enabled)) {}

EarlyStopGuard::~EarlyStopGuard() {
  detail::early_stop = previous_;
}

}  // namespace reprise
