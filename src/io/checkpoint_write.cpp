// Writing a checkpoint, sharded where it must be, over whatever checkpoint stood there before.
// Until every byte is on disk under temporary names the old checkpoint is untouched.
#include "io/checkpoint_plan.h"
#include "io/safetensors_write.h"

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
  const auto plan = detail::plan_checkpoint(infos, max_shard_bytes, stem);
  std::vector<std::unique_ptr<AtomicFile>> files;
  for (const auto& shard : plan.shards) {
    std::vector<const LazyTensor*> inside;
    for (const size_t i : shard.tensors) {
      inside.push_back(&tensors[i]);
    }
    files.push_back(std::make_unique<AtomicFile>(folder / shard.name));
    detail::fill_safetensors(*files.back(), inside, {});
  }
  for (const auto& file : files) {
    file->sync();
  }
  detail::publish(plan, folder, files);
}

void write_checkpoint(const std::filesystem::path& folder,
                      const NamedTensors& tensors,
                      uint64_t max_shard_bytes,
                      const std::string& stem) {
  stream_checkpoint(folder, detail::lazy(tensors), max_shard_bytes, stem);
}

}  // namespace reprise
