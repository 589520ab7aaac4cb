// Splits a checkpoint into shards, and names them, as Hugging Face's writers do.
#include "io/safetensors/checkpoint_plan.h"

#include "io/safetensors/safetensors_format.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

namespace reprise::io {
namespace {

/// Keeps the order of the tensors. A tensor larger than a shard gets a shard of its own.
std::vector<std::vector<size_t>> split(const std::vector<TensorInfo>& tensors,
                                       uint64_t max_shard_bytes) {
  std::vector<std::vector<size_t>> shards;
  std::vector<size_t> current;
  uint64_t current_bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const uint64_t bytes = tensor_bytes(tensors[i], "to be written");
    if (bytes > max_shard_bytes) {
      shards.push_back({i});
      continue;
    }
    if (current_bytes + bytes > max_shard_bytes) {
      shards.push_back(std::move(current));
      current = {};
      current_bytes = 0;
    }
    current.push_back(i);
    current_bytes += bytes;
  }
  if (!current.empty() || shards.empty()) {
    shards.push_back(std::move(current));
  }
  return shards;
}

std::string five_digits(size_t number) {
  const std::string digits = std::to_string(number);
  constexpr size_t kWidth = 5;
  return std::string(kWidth - std::min(kWidth, digits.size()), '0') + digits;
}

std::string shard_name(const std::string& stem, size_t index, size_t count) {
  return count == 1
             ? stem + ".safetensors"
             : stem + "-" + five_digits(index + 1) + "-of-" + five_digits(count) + ".safetensors";
}

/// Whether `name` is a shard name of `stem`.
bool is_shard_name(std::string_view name, const std::string& stem) {
  constexpr std::string_view kPattern = "-00000-of-00000.safetensors";
  if (!name.starts_with(stem) || name.size() != stem.size() + kPattern.size()) {
    return false;
  }
  name.remove_prefix(stem.size());
  return std::equal(name.begin(), name.end(), kPattern.begin(), [](char have, char want) {
    return want == '0' ? std::isdigit(static_cast<unsigned char>(have)) != 0 : have == want;
  });
}

Json index_json(const std::vector<TensorInfo>& tensors,
                const std::vector<CheckpointPlan::Shard>& shards) {
  std::map<std::string, std::string> weight_map;
  uint64_t total = 0;
  for (const auto& shard : shards) {
    for (const size_t i : shard.tensors) {
      const bool is_new = weight_map.emplace(tensors[i].name, shard.name).second;
      TORCH_CHECK(
          is_new, "[safetensors] two tensors are to be written as \"", tensors[i].name, "\"");
      total += tensor_bytes(tensors[i], "to be written");
    }
  }
  Json::object_t sorted;
  sorted.reserve(weight_map.size());
  for (const auto& [name, file] : weight_map) {
    sorted.emplace_back(name, file);
  }
  return {{"metadata", {{"total_size", total}}}, {"weight_map", std::move(sorted)}};
}

void remove_file(const std::filesystem::path& path) {
  std::error_code failed;
  std::filesystem::remove(path, failed);
  TORCH_CHECK(
      !failed, "[safetensors] cannot remove the old ", path.string(), ": ", failed.message());
}

/// Removes files of an earlier checkpoint that were not written now.
void remove_stale(const std::filesystem::path& folder,
                  const std::string& stem,
                  const std::set<std::string>& written) {
  std::vector<std::string> stale = {stem + ".safetensors"};
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (is_shard_name(entry.path().filename().string(), stem)) {
      stale.push_back(entry.path().filename().string());
    }
  }
  for (const std::string& name : stale) {
    if (!written.contains(name)) {
      remove_file(folder / name);
    }
  }
}

}  // namespace

CheckpointPlan plan_checkpoint(const std::vector<TensorInfo>& tensors,
                               uint64_t max_shard_bytes,
                               const std::string& stem) {
  CheckpointPlan plan;
  plan.stem = stem;
  auto parts = split(tensors, max_shard_bytes);
  for (size_t i = 0; i < parts.size(); ++i) {
    plan.shards.push_back({shard_name(stem, i, parts.size()), std::move(parts[i])});
  }
  plan.index = index_json(tensors, plan.shards);
  return plan;
}

void publish(const CheckpointPlan& plan,
             const std::filesystem::path& folder,
             const std::vector<std::unique_ptr<AtomicFile>>& files) {
  const std::string index = plan.stem + ".safetensors.index.json";
  // Without an index, shards of two checkpoints side by side cannot be loaded: after a crash
  // between the renames, nothing is opened by mistake.
  remove_file(folder / index);
  for (const auto& file : files) {
    file->commit();
  }
  std::set<std::string> written;
  for (const auto& shard : plan.shards) {
    written.insert(shard.name);
  }
  if (plan.shards.size() > 1) {
    write_json(folder / index, plan.index);
    written.insert(index);
  }
  remove_stale(folder, plan.stem, written);
}

}  // namespace reprise::io
