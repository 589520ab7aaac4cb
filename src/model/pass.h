// What one pass through the model does, handed down to every layer by value.
//
// Note [Passes are values]
// Train or eval, adapters on or off: a layer that asked its own members would, when backward runs a
// block again, get the answer of that later moment. As arguments of the region they are what they
// were in forward.
#pragma once

#include <reprise/model/model.h>

namespace reprise {

struct Pass {
  bool training = false;
  AdapterUse adapters = AdapterUse::Trained;
  bool has_cache = false;  ///< one of many short passes over the same weights

  /// Whether dropout of adapters acts.
  bool trains_adapters() const { return training && adapters == AdapterUse::Trained; }
};

}  // namespace reprise
