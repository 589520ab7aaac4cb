// Which files a checkpoint consists of, and how they replace an earlier checkpoint. Used whether
// one process writes them or several.
#pragma once

#include <reprise/io/file.h>
#include <reprise/io/json.h>
#include <reprise/io/tensor_file.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace reprise::io {

struct CheckpointPlan {
  struct Shard {
    std::string name;             ///< file name
    std::vector<size_t> tensors;  ///< indices of its tensors
  };

  std::string stem;
  std::vector<Shard> shards;  ///< at least one
  Json index;                 ///< written if there are several shards
};

CheckpointPlan plan_checkpoint(const std::vector<TensorInfo>& tensors,
                               uint64_t max_shard_bytes,
                               const std::string& stem);

/// Commits the files of the plan, all of which must be synced to disk, and removes files that are
/// not part of this checkpoint.
void publish(const CheckpointPlan& plan,
             const std::filesystem::path& folder,
             const std::vector<std::unique_ptr<AtomicFile>>& files);

}  // namespace reprise::io
