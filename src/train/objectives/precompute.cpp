#include <reprise/train/precompute.h>

#include "io/private_files.h"
#include "train/budget/out_of_memory.h"
#include "train/loop/batch_plan.h"
#include "train/loop/collate_rows.h"

#include <reprise/autocast.h>
#include <reprise/io/file.h>
#include <reprise/io/safetensors.h>
#include <reprise/io/tensor_file.h>

#include <ATen/ATen.h>

#include <zlib.h>

#include <algorithm>
#include <string>
#include <vector>

namespace reprise {

namespace {

constexpr const char* kTensor = "reference_logps";
constexpr const char* kKey = "key";
constexpr const char* kChecksum = "crc32";

std::string checksum_of(const at::Tensor& contiguous) {
  const auto* const bytes = static_cast<const Bytef*>(contiguous.const_data_ptr());
  return std::to_string(crc32_z(crc32_z(0, nullptr, 0), bytes, contiguous.nbytes()));
}

std::string metadata_of(const TensorFile& file, const char* name) {
  const auto found = file.metadata().find(name);
  return found == file.metadata().end() ? std::string() : found->second;
}

// The result of an earlier run; undefined unless the file is this user's alone and intact, and key
// and size match.
at::Tensor read_cache(const std::filesystem::path& path, const std::string& key, int64_t size) {
  if (path.empty() || !std::filesystem::exists(path)) {
    return {};
  }
  try {
    const TensorFile file(path);
    const auto* info = file.find(kTensor);
    if (file.is_private() && info != nullptr && info->dtype == at::kFloat &&
        info->shape == std::vector<int64_t>{size, 2} && metadata_of(file, kKey) == key) {
      auto logps = at::empty(info->shape, at::kFloat);
      file.copy_to(*info, logps);
      return metadata_of(file, kChecksum) == checksum_of(logps) ? logps : at::Tensor();
    }
  } catch (const c10::Error&) {
    // Damaged: computed again by the caller.
  }
  return {};
}

at::Tensor logps_of(const ReferencedObjective& objective,
                    const Batch& batch,
                    const std::string& batch_option) {
  at::Tensor logps;
  explaining_memory(
      [&] { logps = objective.reference_logps(to_device(batch, objective.model().device())); },
      [&](const std::string& error) {
        const PassDemand demand{"the reference's pass over the data",
                                batch_option,
                                static_cast<int64_t>(batch.rows.size()),
                                tokens_of_row(batch)};
        return explain_out_of_memory(error, demand, objective.model());
      });
  return logps;
}

}  // namespace

at::Tensor find_precomputed(const Dataset& data,
                            const PrecomputeOptions& options,
                            const World& world) {
  auto cached = read_cache(options.cache, options.key, data.size());
  const bool is_missing =
      world.max(cached.defined() ? 0 : 1, "whether precomputed log-probabilities exist") > 0;
  return is_missing ? at::Tensor() : cached;
}

at::Tensor precompute_reference(const ReferencedObjective& objective,
                                const Dataset& data,
                                const PrecomputeOptions& options,
                                const World& world) {
  const int64_t size = data.size();
  if (auto cached = find_precomputed(data, options, world); cached.defined()) {
    return cached;
  }
  const AutocastScope autocast(objective.model().device().type(),
                               options.autocast.value_or(at::kFloat),
                               options.autocast.has_value());
  auto logps = at::zeros({size, 2}, at::kFloat);
  int64_t done = 0;
  for (const auto& share : share_of_batches(size, options.batch_size, world)) {
    const auto& indices = share.examples;
    const auto batch = options.mismatch_across_processes
                           ? collate_rows(data, share, options.collate)
                           : collate_examples(data, indices, options.collate);
    const auto values = logps_of(objective, batch, options.batch_option);
    if (!share.is_filler) {
      logps.slice(0, indices.front(), indices.back() + 1).copy_(values);
    }
    done = std::min(done + options.batch_size * world.size(), size);
    if (options.progress && world.is_first()) {
      options.progress(done, size);
    }
  }
  logps = world.sum(logps, "precomputed log-probabilities");  // other processes' rows are 0
  if (!options.cache.empty()) {
    world.run_on_first("storing precomputed log-probabilities", [&] {
      create_folder(options.cache.parent_path());
      const auto whole = logps.contiguous();
      write_safetensors(options.cache,
                        {{kTensor, whole}},
                        {{kKey, options.key}, {kChecksum, checksum_of(whole)}});
      io::make_private(options.cache);
    });
  }
  return logps;
}

}  // namespace reprise
