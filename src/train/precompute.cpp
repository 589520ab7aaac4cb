// Log-probabilities of the reference, once for the whole data set, so that training needs no
// reference in memory.
#include "train/evaluate.h"

#include <reprise/autocast.h>
#include <reprise/io/file.h>
#include <reprise/io/safetensors.h>
#include <reprise/train/out_of_memory.h>
#include <reprise/train/reference.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

namespace reprise {

namespace {

constexpr const char* kTensor = "reference_logps";
constexpr const char* kKey = "key";

// What an earlier run left, if it is whole and of the same key and size.
at::Tensor read_cache(const std::filesystem::path& path, const std::string& key, int64_t size) {
  if (path.empty() || !std::filesystem::exists(path)) {
    return {};
  }
  try {
    const SafetensorsFile file(path);
    const auto* info = file.find(kTensor);
    const auto found = file.metadata().find(kKey);
    if (info != nullptr && info->shape == std::vector<int64_t>{size, 2} &&
        found != file.metadata().end() && found->second == key) {
      return file.view(*info).clone();
    }
  } catch (const c10::Error&) {
    // Damaged: made again below.
  }
  return {};
}

at::Tensor logps_of(const ReferencedObjective& objective,
                    const Batch& batch,
                    const std::string& batch_flag) {
  at::Tensor logps;
  explaining_memory(
      [&] { logps = objective.reference_logps(to_device(batch, objective.model().device())); },
      [&](const std::string& error) {
        const PassDemand demand{"the reference's pass over the data",
                                batch_flag,
                                static_cast<int64_t>(batch.rows.size()),
                                tokens_of_row(batch)};
        return explain_out_of_memory(error, demand, objective.model());
      });
  return logps;
}

}  // namespace

at::Tensor find_precomputed(const Dataset& data, const PrecomputeOptions& options) {
  return read_cache(options.cache, options.key, data.size());
}

at::Tensor precompute_reference(const ReferencedObjective& objective,
                                const Dataset& data,
                                const PrecomputeOptions& options) {
  const int64_t size = data.size();
  if (auto cached = find_precomputed(data, options); cached.defined()) {
    return cached;
  }
  const AutocastScope autocast(objective.model().device().type(),
                               options.autocast.value_or(at::kFloat),
                               options.autocast.has_value());
  auto logps = at::empty({size, 2}, at::kFloat);
  for (int64_t first = 0; first < size; first += options.batch_size) {
    std::vector<int64_t> indices(static_cast<size_t>(std::min(options.batch_size, size - first)));
    std::iota(indices.begin(), indices.end(), first);
    const auto values =
        logps_of(objective, collate_examples(data, indices, options.collate), options.batch_flag);
    logps.slice(0, first, first + values.size(0)).copy_(values);
    if (options.progress) {
      options.progress(first + values.size(0), size);
    }
  }
  if (!options.cache.empty()) {
    create_folder(options.cache.parent_path());
    write_safetensors(options.cache, {{kTensor, logps}}, {{kKey, options.key}});
  }
  return logps;
}

}  // namespace reprise
