// Into which files a checkpoint goes, and how they replace the checkpoint that stood there before.
// Whoever writes them, one process or several, asks here.
#pragma once

#include <reprise/io/file.h>
#include <reprise/io/json.h>
#include <reprise/io/safetensors.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace reprise::detail {

struct CheckpointPlan {
  struct Shard {
    std::string name;             ///< of the file
    std::vector<size_t> tensors;  ///< numbers of those that go into it
  };

  std::string stem;
  std::vector<Shard> shards;  ///< at least one
  Json index;                 ///< written if there are several
};

CheckpointPlan plan_checkpoint(const std::vector<TensorInfo>& tensors,
                               uint64_t max_shard_bytes,
                               const std::string& stem);

/// Gives the files of the plan their names, and removes what is no part of this checkpoint. Every
/// byte of them is on disk.
void publish(const CheckpointPlan& plan,
             const std::filesystem::path& folder,
             const std::vector<std::unique_ptr<AtomicFile>>& files);

}  // namespace reprise::detail
