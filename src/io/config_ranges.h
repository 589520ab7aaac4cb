// What numbers of a model's configuration may be, the same for config.json and for GGUF: a file
// that is imported can be opened.
#pragma once

namespace reprise::io {

/// Added to a mean of squares before its root.
inline constexpr double kLargestEpsilon = 1;
/// The base of rotary embeddings, above 0.
inline constexpr double kLargestRopeBase = 1e15;

}  // namespace reprise::io
