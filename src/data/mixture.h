// In which order a mixture takes examples from its files.
#pragma once

#include <reprise/export.h>

#include <cstdint>
#include <span>
#include <vector>

namespace reprise::detail {

/// Indices into the files' examples one after the other: for each, a file is drawn by its weight,
/// and that file's next example is taken. Ends when a file has given its last, so none repeats.
/// Exactly datasets.interleave_datasets(probabilities = weights, seed = seed).
REPRISE_API std::vector<int64_t> mixture_order(std::span<const int64_t> sizes,
                                               std::span<const double> weights,
                                               uint64_t seed);

}  // namespace reprise::detail
