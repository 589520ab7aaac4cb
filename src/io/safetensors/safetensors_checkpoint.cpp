// A checkpoint as one file or as shards. The constructor checks that every name in the index is in
// the shard that the index names, and that no shard has a tensor that is not in the index.
#include "io/safetensors/weight_map.h"

#include <reprise/io/json.h>
#include <reprise/io/safetensors.h>

#include <c10/util/Exception.h>

#include <unordered_map>

namespace reprise {
namespace {

constexpr size_t kNamesShown = 5;

std::filesystem::path single_file(const std::filesystem::path& folder, const std::string& stem) {
  return folder / (stem + ".safetensors");
}

std::filesystem::path index_file(const std::filesystem::path& folder, const std::string& stem) {
  return folder / (stem + ".safetensors.index.json");
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

void refuse_missing_folder(const std::filesystem::path& folder, const std::string& stem) {
  TORCH_CHECK(std::filesystem::exists(folder),
              "[safetensors] ",
              folder.string(),
              ": no such file or folder");
  const bool pickled = std::filesystem::exists(folder / "pytorch_model.bin") ||
                       std::filesystem::exists(folder / "pytorch_model.bin.index.json");
  TORCH_CHECK(false,
              "[safetensors] ",
              folder.string(),
              ": expected ",
              single_file("", stem).string(),
              " or ",
              index_file("", stem).string(),
              ", found neither",
              pickled ? "; pytorch_model.bin is not read: save the model as safetensors" : "");
}

}  // namespace

SafetensorsCheckpoint::SafetensorsCheckpoint(const std::filesystem::path& path,
                                             const std::string& stem) {
  const bool is_folder = std::filesystem::is_directory(path);
  const auto single = is_folder ? single_file(path, stem) : path;
  if (std::filesystem::exists(single)) {
    files_.emplace_back(single);
    for (const TensorInfo& info : files_[0].tensors()) {
      index_.emplace(info.name, std::pair(size_t{0}, &info));
    }
    return;
  }
  const auto index = index_file(path, stem);
  if (!is_folder || !std::filesystem::exists(index)) {
    refuse_missing_folder(path, stem);
  }
  open_shards(index);
}

void SafetensorsCheckpoint::open_shards(const std::filesystem::path& index) {
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
              "[safetensors] ",
              index.string(),
              ": expected in the shards that it names, and missing there: ",
              first_names(missing));
  refuse_extra(index);
}

void SafetensorsCheckpoint::refuse_extra(const std::filesystem::path& index) const {
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
              "[safetensors] ",
              index.string(),
              ": in the shards but not given to them by weight_map: ",
              first_names(extra));
}

std::vector<std::string> SafetensorsCheckpoint::names() const {
  std::vector<std::string> names;
  names.reserve(index_.size());
  for (const auto& [name, location] : index_) {
    names.push_back(name);
  }
  return names;
}

const TensorInfo* SafetensorsCheckpoint::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : found->second.second;
}

const std::pair<size_t, const TensorInfo*>& SafetensorsCheckpoint::locate(
    const std::string& name) const {
  const auto found = index_.find(name);
  TORCH_CHECK(found != index_.end(),
              "[safetensors] ",
              files_.empty() ? "an empty checkpoint" : files_[0].path().string(),
              files_.size() > 1 ? " and its other shards" : "",
              ": expected a tensor \"",
              name,
              "\", found none");
  return found->second;
}

at::Tensor SafetensorsCheckpoint::view(const std::string& name) const {
  const auto& [file, info] = locate(name);
  return files_[file].view(*info);
}

void SafetensorsCheckpoint::copy_to(const std::string& name, at::Tensor target) const {
  const auto& [file, info] = locate(name);
  files_[file].copy_to(*info, std::move(target));
}

void SafetensorsCheckpoint::copy_part_to(const std::string& name,
                                         int64_t begin,
                                         const at::Tensor& target) const {
  const auto& [file, info] = locate(name);
  files_[file].copy_part_to(*info, begin, target);
}

uint64_t SafetensorsCheckpoint::total_bytes() const {
  uint64_t bytes = 0;
  for (const auto& [name, location] : index_) {
    bytes += location.second->end - location.second->begin;
  }
  return bytes;
}

}  // namespace reprise
