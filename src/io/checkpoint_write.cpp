// Writing a checkpoint, sharded where it must be, over whatever checkpoint stood there before.
// Until every byte is on disk under temporary names the old checkpoint is untouched.
#include "io/safetensors_format.h"
#include "io/safetensors_write.h"

#include <reprise/io/json.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <set>
#include <string_view>
#include <system_error>

namespace reprise {
namespace {

using Shard = std::vector<const LazyTensor*>;

uint64_t bytes_of(const LazyTensor& tensor) {
  return detail::tensor_bytes({tensor.name, tensor.dtype, tensor.shape, 0, 0}, "to be written");
}

/// In the order given; a tensor larger than a shard gets one of its own. This is how Hugging Face's
/// writers split.
std::vector<Shard> split(const std::vector<LazyTensor>& tensors, uint64_t max_shard_bytes) {
  std::vector<Shard> shards;
  Shard current;
  uint64_t current_bytes = 0;
  for (const LazyTensor& tensor : tensors) {
    const uint64_t bytes = bytes_of(tensor);
    if (bytes > max_shard_bytes) {
      shards.push_back({&tensor});
      continue;
    }
    if (current_bytes + bytes > max_shard_bytes) {
      shards.push_back(std::move(current));
      current = {};
      current_bytes = 0;
    }
    current.push_back(&tensor);
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

/// Whether `name` is one that this writer gives to a shard of `stem`.
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

Json index_json(const std::vector<Shard>& shards, const std::string& stem) {
  std::map<std::string, std::string> weight_map;
  uint64_t total = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    for (const LazyTensor* tensor : shards[i]) {
      const bool is_new =
          weight_map.emplace(tensor->name, shard_name(stem, i, shards.size())).second;
      TORCH_CHECK(is_new, "[safetensors] two tensors are to be written as \"", tensor->name, "\"");
      total += bytes_of(*tensor);
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

/// What an earlier checkpoint left, beside its index.
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

void stream_checkpoint(const std::filesystem::path& folder,
                       const std::vector<LazyTensor>& tensors,
                       uint64_t max_shard_bytes,
                       const std::string& stem) {
  const std::vector<Shard> shards = split(tensors, max_shard_bytes);
  const Json index = index_json(shards, stem);
  std::vector<std::unique_ptr<AtomicFile>> files;
  std::set<std::string> written;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shard_name(stem, i, shards.size());
    files.push_back(std::make_unique<AtomicFile>(folder / name));
    detail::fill_safetensors(*files.back(), shards[i], {});
    written.insert(name);
  }
  for (const auto& file : files) {
    file->sync();
  }
  // Without an index, shards of two checkpoints side by side are no checkpoint: a crash between
  // the renames leaves nothing that opens by mistake.
  remove_file(folder / (stem + ".safetensors.index.json"));
  for (const auto& file : files) {
    file->commit();
  }
  if (shards.size() > 1) {
    const std::string name = stem + ".safetensors.index.json";
    write_json(folder / name, index);
    written.insert(name);
  }
  remove_stale(folder, stem, written);
}

void write_checkpoint(const std::filesystem::path& folder,
                      const NamedTensors& tensors,
                      uint64_t max_shard_bytes,
                      const std::string& stem) {
  stream_checkpoint(folder, detail::lazy(tensors), max_shard_bytes, stem);
}

}  // namespace reprise
