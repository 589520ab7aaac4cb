// Mixtures: several data files interleaved by weight.
#pragma once

#include <reprise/data/dataset.h>
#include <reprise/export.h>

#include <cstdint>
#include <span>
#include <vector>

namespace reprise::data {

/// Throws unless all files have a weight above 0 or none has a weight. `files` is not empty.
void check_weights(const std::vector<DataFile>& files);

/// Whether examples are drawn by weight. Otherwise files are read one after the other.
bool is_mixture(const std::vector<DataFile>& files);

/// The order in which a mixture takes examples, as indices into the concatenated files. For each
/// example a file is drawn by its weight, and the next example of that file is taken. Ends when a
/// file has given its last example, so none repeats. Equal to
/// datasets.interleave_datasets(probabilities = weights, seed = seed).
REPRISE_API std::vector<int64_t> mixture_order(std::span<const int64_t> sizes,
                                               std::span<const double> weights,
                                               uint64_t seed);

}  // namespace reprise::data
