// Log-probabilities of the reference, computed once for a whole data set before training, so that
// no reference is in memory while the policy is trained.
#pragma once

#include <reprise/data/batch.h>
#include <reprise/data/dataset.h>
#include <reprise/dist/world.h>
#include <reprise/export.h>
#include <reprise/train/reference.h>

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace reprise {

struct PrecomputeOptions {
  CollateOptions collate;                       ///< as in training
  int64_t batch_size = 8;                       ///< examples per batch and process
  std::optional<at::ScalarType> autocast = {};  ///< as in training
  /// File to store the result in. A later run with the same `key` reads it. Empty: not stored.
  std::filesystem::path cache = {};
  std::string key = {};  ///< identifies everything that the result depends on
  /// kto in several processes: take mismatched rows from the batches of all processes, as training
  /// does. False: from the batch itself, as an evaluation does.
  bool mismatch_across_processes = false;
  /// Called after every batch in the first process, with the rows done by all processes.
  std::function<void(int64_t done, int64_t total)> progress = {};
  /// The option that sets batch_size, for the error message if memory runs out.
  std::string batch_option = "precompute_ref_batch_size";
};

/// The result of an earlier run from the cache; undefined if the file is missing, damaged or has
/// another key. If it is found, the reference need not be loaded at all. All processes find it or
/// none does.
REPRISE_API at::Tensor find_precomputed(const Dataset& data,
                                        const PrecomputeOptions& options,
                                        const World& world = World::single());

/// ReferencedObjective::reference_logps() of all examples in the order of the data set, (examples,
/// 2): from the cache, or computed and stored there. Each process computes a share of the batches;
/// all get the whole result. If memory runs out, the error says which setting would help.
REPRISE_API at::Tensor precompute_reference(const ReferencedObjective& objective,
                                            const Dataset& data,
                                            const PrecomputeOptions& options,
                                            const World& world = World::single());

}  // namespace reprise
