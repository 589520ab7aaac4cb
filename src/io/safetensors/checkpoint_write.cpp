// Writes a checkpoint, in shards if it is large, over an earlier one. The old checkpoint stays
// untouched until every byte of the new one is on disk under temporary names.
#include "io/safetensors/checkpoint_plan.h"
#include "io/safetensors/safetensors_write.h"

#include <memory>

namespace reprise {

void stream_checkpoint(const std::filesystem::path& folder,
                       const std::vector<LazyTensor>& tensors,
                       uint64_t max_shard_bytes,
                       const std::string& stem) {
  std::vector<TensorInfo> infos;
  for (const LazyTensor& tensor : tensors) {
    infos.push_back({tensor.name, tensor.dtype, tensor.shape, 0, 0});
  }
  const auto plan = io::plan_checkpoint(infos, max_shard_bytes, stem);
  std::vector<std::unique_ptr<AtomicFile>> files;
  for (const auto& shard : plan.shards) {
    std::vector<const LazyTensor*> inside;
    for (const size_t i : shard.tensors) {
      inside.push_back(&tensors[i]);
    }
    files.push_back(std::make_unique<AtomicFile>(folder / shard.name));
    io::fill_safetensors(*files.back(), inside, {});
  }
  for (const auto& file : files) {
    file->sync();
  }
  io::publish(plan, folder, files);
}

void write_checkpoint(const std::filesystem::path& folder,
                      const NamedTensors& tensors,
                      uint64_t max_shard_bytes,
                      const std::string& stem) {
  stream_checkpoint(folder, io::lazy(tensors), max_shard_bytes, stem);
}

}  // namespace reprise
