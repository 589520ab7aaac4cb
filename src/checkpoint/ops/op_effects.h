// What an operator does beyond computing its results: which arguments it writes, and where it draws
// random numbers from.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstddef>
#include <optional>
#include <vector>

namespace reprise::detail {

struct OpEffects {
  explicit OpEffects(const c10::OperatorHandle& op);

  /// Whether it has an effect, or reads a tensor that a region may have captured.
  bool is_of_interest() const { return has_effect() || !read.empty() || !taken.empty(); }
  bool has_effect() const { return !written.empty() || draws || runs_once || is_unclear; }

  std::vector<size_t> written;  ///< indices of the arguments that it writes
  std::vector<size_t> read;     ///< indices of the other tensors
  /// Of a composite that may read them without calling another operator: one of another library, or
  /// with kernels of its own.
  std::vector<size_t> taken;
  bool draws = false;  ///< draws random numbers
  std::optional<size_t> generator;
  bool sets = false;    ///< gives the written argument other sizes or another storage
  bool writes = false;  ///< changes the content of the written argument
  /// See Note [Operators that run once].
  bool runs_once = false;
  /// It returns nothing, so that it has an effect, but does not say whether it writes an argument.
  bool is_unclear = false;
};

/// Throws if the operator's results cannot be kept.
void declare_effectful(const c10::OperatorHandle& op);

/// Operators have got effects that they did not have: the next region looks at all of them again.
void observe_more_effects();

/// Cached per thread.
const OpEffects& op_effects(const c10::OperatorHandle& op);

}  // namespace reprise::detail
