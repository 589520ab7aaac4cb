// The settings of one forward pass, passed down to every layer by value.
//
// Note [Passes are values]
// Train or eval mode, adapters on or off: if a layer read them from members, the recompute of a
// block in backward would see their values at that later time. As arguments of the checkpointed
// region they are those of the forward pass.
#pragma once

#include <reprise/model/model.h>

namespace reprise {

struct Pass {
  bool training = false;
  AdapterUse adapters = AdapterUse::Trained;
  bool has_cache = false;  ///< with a KV cache: one of many short passes with the same weights

  /// Whether the dropout of LoRA adapters is active.
  bool trains_adapters() const { return training && adapters == AdapterUse::Trained; }
};

}  // namespace reprise
