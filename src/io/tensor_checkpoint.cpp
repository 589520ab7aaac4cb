// A checkpoint as one file or as shards. The constructor checks that every name in the index is in
// the shard that the index names, and that no shard has a tensor that is not in the index.
#include "io/safetensors/weight_map.h"

#include <reprise/io/json.h>
#include <reprise/io/tensor_file.h>

#include <c10/util/Exception.h>

#include <string_view>
#include <unordered_map>

namespace reprise {
namespace {

constexpr size_t kNamesShown = 5;

constexpr std::string_view kIndexEnd = ".index.json";

/// The files that a checkpoint may begin with, in the order in which they are looked for.
/// torch.save's come last; transformers calls the model's pytorch_model.bin.
std::vector<std::string> first_files(const std::string& stem) {
  const std::string safe = stem + ".safetensors";
  const std::string pickled = (stem == "model" ? "pytorch_model" : stem) + ".bin";
  const std::string end(kIndexEnd);
  return {safe, safe + end, pickled, pickled + end};
}

std::string first_names(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < kNamesShown; ++i) {
    text += (i == 0 ? "\"" : ", \"") + names[i] + "\"";
  }
  return names.size() <= kNamesShown
             ? text
             : text + " and " + std::to_string(names.size() - kNamesShown) + " more";
}

/// The file that the checkpoint in `folder` begins with.
std::filesystem::path first_file(const std::filesystem::path& folder, const std::string& stem) {
  const auto files = first_files(stem);
  for (const std::string& name : files) {
    if (std::filesystem::exists(folder / name)) {
      return folder / name;
    }
  }
  TORCH_CHECK(
      std::filesystem::exists(folder), "[tensors] ", folder.string(), ": no such file or folder");
  TORCH_CHECK(false,
              "[tensors] ",
              folder.string(),
              ": expected one of ",
              c10::Join(", ", files),
              ", found none of them");
}

}  // namespace

TensorCheckpoint::TensorCheckpoint(const std::filesystem::path& path, const std::string& stem) {
  const bool is_file = std::filesystem::is_regular_file(path);
  const auto first = is_file ? path : first_file(path, stem);
  if (is_file || !first.string().ends_with(kIndexEnd)) {
    files_.emplace_back(first);
    for (const TensorInfo& info : files_[0].tensors()) {
      index_.emplace(info.name, std::pair(size_t{0}, &info));
    }
    return;
  }
  open_shards(first);
}

void TensorCheckpoint::open_shards(const std::filesystem::path& index) {
  std::unordered_map<std::string, size_t> shards;
  std::vector<std::string> missing;
  for (const auto& [name, shard] : io::read_weight_map(read_json(index), index.string())) {
    const auto [known, is_new] = shards.emplace(shard, files_.size());
    if (is_new) {
      files_.emplace_back(index.parent_path() / shard);
    }
    const TensorInfo* const info = files_[known->second].find(name);
    if (info == nullptr) {
      missing.push_back(name);
    } else {
      index_.emplace(name, std::pair(known->second, info));
    }
  }
  TORCH_CHECK(missing.empty(),
              "[tensors] ",
              index.string(),
              ": expected in the shards that it names, and missing there: ",
              first_names(missing));
  refuse_extra(index);
}

void TensorCheckpoint::refuse_extra(const std::filesystem::path& index) const {
  std::vector<std::string> extra;
  for (size_t i = 0; i < files_.size(); ++i) {
    for (const TensorInfo& info : files_[i].tensors()) {
      const auto known = index_.find(info.name);
      if (known == index_.end() || known->second.first != i) {
        extra.push_back(info.name);
      }
    }
  }
  TORCH_CHECK(extra.empty(),
              "[tensors] ",
              index.string(),
              ": in the shards but not given to them by weight_map: ",
              first_names(extra));
}

std::vector<std::string> TensorCheckpoint::names() const {
  std::vector<std::string> names;
  names.reserve(index_.size());
  for (const auto& [name, location] : index_) {
    names.push_back(name);
  }
  return names;
}

const TensorInfo* TensorCheckpoint::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : found->second.second;
}

const std::pair<size_t, const TensorInfo*>& TensorCheckpoint::locate(
    const std::string& name) const {
  const auto found = index_.find(name);
  TORCH_CHECK(found != index_.end(),
              "[tensors] ",
              files_.empty() ? "an empty checkpoint" : files_[0].path().string(),
              files_.size() > 1 ? " and its other shards" : "",
              ": expected a tensor \"",
              name,
              "\", found none");
  return found->second;
}

at::Tensor TensorCheckpoint::view(const std::string& name) const {
  const auto& [file, info] = locate(name);
  return files_[file].view(*info);
}

void TensorCheckpoint::copy_to(const std::string& name, at::Tensor target) const {
  const auto& [file, info] = locate(name);
  files_[file].copy_to(*info, std::move(target));
}

void TensorCheckpoint::copy_part_to(const std::string& name,
                                    int64_t begin,
                                    const at::Tensor& target) const {
  const auto& [file, info] = locate(name);
  files_[file].copy_part_to(*info, begin, target);
}

uint64_t TensorCheckpoint::total_bytes() const {
  uint64_t bytes = 0;
  for (const auto& [name, location] : index_) {
    bytes += location.second->end - location.second->begin;
  }
  return bytes;
}

}  // namespace reprise
