// The safetensors writer. For the same tensors and metadata it writes the same bytes as the Python
// package: tensors sorted by dtype, then by name, after a header padded to eight bytes.
#include "io/safetensors/safetensors_write.h"

#include "io/safetensors/safetensors_format.h"

#include <reprise/io/json.h>

#include <ATen/Functions.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace reprise {
namespace io {
namespace {

void put_in_file_order(std::vector<TensorInfo>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    const int rank_a = -safetensors_dtype_rank(a.dtype);
    const int rank_b = -safetensors_dtype_rank(b.dtype);
    return std::tie(rank_a, a.name) < std::tie(rank_b, b.name);
  });
}

void refuse_duplicates(const std::vector<TensorInfo>& tensors) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors) {
    names.emplace_back(tensor.name);
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  TORCH_CHECK(
      twice == names.end(), "[safetensors] two tensors are to be written as \"", *twice, "\"");
}

constexpr size_t kAlignment = 8;

/// The JSON of the header. Sets the offsets of the tensors, counted from its end.
std::string header_text(std::vector<TensorInfo>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  // Fills the object's vector directly, because ordered_json's insertion searches for the key.
  Json::object_t header;
  header.reserve(tensors.size() + 1);
  header.emplace_back(kMetadataKey, metadata);
  uint64_t position = 0;
  for (TensorInfo& info : tensors) {
    TORCH_CHECK(info.name != kMetadataKey, "[safetensors] ", kMetadataKey, " cannot name a tensor");
    info.begin = position;
    position += tensor_bytes(info, "to be written");
    info.end = position;
    header.emplace_back(info.name,
                        Json{{"dtype", safetensors_dtype(info.dtype, info.name)},
                             {"shape", info.shape},
                             {"data_offsets", {info.begin, info.end}}});
  }
  try {
    return Json(std::move(header)).dump();
  } catch (const Json::exception& error) {
    TORCH_CHECK(false, "[safetensors] a name or metadata is not UTF-8: ", error.what());
  }
}

/// The bytes before the tensors: length, JSON, padding.
std::string file_head(std::vector<TensorInfo>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  std::string text = header_text(tensors, metadata);
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  TORCH_CHECK(text.size() <= kMaxHeaderBytes,
              "[safetensors] expected names and metadata of at most ",
              kMaxHeaderBytes,
              " bytes, found ",
              text.size());
  const uint64_t length = text.size();
  std::string bytes(kLengthBytes, '\0');
  std::memcpy(bytes.data(), &length, kLengthBytes);
  return bytes + text;
}

void write_tensor(AtomicFile& file, const LazyTensor& tensor, uint64_t bytes) {
  const at::Tensor made = tensor.make();
  TORCH_CHECK(made.defined() && made.scalar_type() == tensor.dtype &&
                  made.sizes() == at::IntArrayRef(tensor.shape),
              "[safetensors] tensor \"",
              tensor.name,
              "\": expected ",
              c10::IntArrayRef(tensor.shape),
              " of ",
              c10::toString(tensor.dtype),
              ", found ",
              made.defined() ? c10::str(made.sizes(), " of ", c10::toString(made.scalar_type()))
                             : "no tensor");
  const at::Tensor plain = made.detach().to(at::kCPU).resolve_neg().contiguous();
  TORCH_INTERNAL_ASSERT(plain.nbytes() == bytes);
  file.write(std::as_bytes(std::span(static_cast<const char*>(plain.const_data_ptr()), bytes)));
}

}  // namespace

FileLayout layout_of(std::vector<TensorInfo> tensors, std::map<std::string, std::string> metadata) {
  refuse_duplicates(tensors);
  metadata.try_emplace("format", "pt");
  put_in_file_order(tensors);
  FileLayout layout;
  layout.head = file_head(tensors, metadata);
  layout.bytes = layout.head.size();
  for (TensorInfo& info : tensors) {
    info.begin += layout.head.size();
    info.end += layout.head.size();
    layout.bytes = info.end;
  }
  layout.tensors = std::move(tensors);
  return layout;
}

void fill_safetensors(AtomicFile& file,
                      const std::vector<const LazyTensor*>& tensors,
                      std::map<std::string, std::string> metadata) {
  std::vector<TensorInfo> infos;
  std::unordered_map<std::string_view, const LazyTensor*> by_name;
  for (const LazyTensor* tensor : tensors) {
    infos.push_back({tensor->name, tensor->dtype, tensor->shape, 0, 0});
    by_name.emplace(tensor->name, tensor);
  }
  const FileLayout layout = layout_of(std::move(infos), std::move(metadata));
  file.write(layout.head);
  for (const TensorInfo& info : layout.tensors) {
    write_tensor(file, *by_name.at(info.name), info.end - info.begin);
  }
}

std::vector<LazyTensor> lazy(const NamedTensors& tensors) {
  std::vector<LazyTensor> result;
  result.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    TORCH_CHECK(tensor.defined() && tensor.layout() == at::kStrided,
                "[safetensors] tensor \"",
                name,
                "\": expected a dense tensor, found ",
                tensor.defined() ? "another layout" : "none");
    result.push_back(
        {name, tensor.scalar_type(), tensor.sizes().vec(), [tensor = tensor] { return tensor; }});
  }
  return result;
}

}  // namespace io

void stream_safetensors(const std::filesystem::path& path,
                        const std::vector<LazyTensor>& tensors,
                        std::map<std::string, std::string> metadata) {
  std::vector<const LazyTensor*> pointers;
  pointers.reserve(tensors.size());
  for (const LazyTensor& tensor : tensors) {
    pointers.push_back(&tensor);
  }
  AtomicFile file(path);
  io::fill_safetensors(file, pointers, std::move(metadata));
  file.commit();
}

void write_safetensors(const std::filesystem::path& path,
                       const NamedTensors& tensors,
                       std::map<std::string, std::string> metadata) {
  stream_safetensors(path, io::lazy(tensors), std::move(metadata));
}

}  // namespace reprise
