// Changes of the default generators that no random operator explains.
//
// Note [Draws without an operator]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// Only operators can be observed. A region may also seed a default generator, or draw from it
// directly; and other threads may use it. Forward notices that the state changed, but not who did
// it. For a recompute of such a region:
// - a generator that ends in a state that forward has seen was set to it by the region (given a
//   saved state), and one that has another seed was seeded by it: the caller's state is restored.
// - one that ends in another state was drawn from, by the region or by another thread. If it was
//   the region, a second recompute draws other numbers again and gives other tensors: an error. If
//   not, there is nothing to do.
#pragma once

#include "checkpoint/state/draw_log.h"
#include "checkpoint/state/rng_state.h"

#include <optional>
#include <typeinfo>

namespace reprise::detail {

/// Watches the default generators during a recompute. `listed` ones are restored anyway.
class UnseenDraws {
 public:
  UnseenDraws(const DrawLog& log, const std::vector<at::Generator>& listed);

  /// The recompute has ended. Returns whether the region may have drawn by itself.
  bool settle() const;

 private:
  const DrawLog& log_;
  std::vector<GeneratorState> before_;
};

/// Regions of one callable that were suspected and had drawn nothing. After a few times they are no
/// longer suspected: the second recompute costs time.
bool is_beyond_suspicion(const std::type_info& callable);
void count_unfounded_suspicion(const std::type_info& callable);

}  // namespace reprise::detail
