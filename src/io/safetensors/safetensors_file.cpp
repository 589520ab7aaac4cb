// A memory-mapped safetensors file. Tensors are copied out in chunks, and the pages of each chunk
// are released at once: a loaded model takes its own memory, but not that of the file as well.
#include "io/safetensors/safetensors_header.h"

#include <reprise/io/safetensors.h>

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <unordered_map>

namespace reprise {
namespace {

constexpr int64_t kChunkBytes = int64_t{8} << 20;

/// Both are contiguous. A plain copy is not worth several threads: the page cache is the
/// bottleneck.
void copy_chunk(const at::Tensor& from, const at::Tensor& to) {
  if (to.is_cpu() && to.scalar_type() == from.scalar_type()) {
    std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), from.nbytes());
  } else {
    to.copy_(from);
  }
}

}  // namespace

struct SafetensorsFile::Contents {
  explicit Contents(const std::filesystem::path& path)
      : file(path), header(io::parse_safetensors_header(file.bytes(), path.string())) {
    for (const TensorInfo& info : header.tensors) {
      by_name.emplace(info.name, &info);
    }
  }

  MappedFile file;
  io::SafetensorsHeader header;
  std::unordered_map<std::string_view, const TensorInfo*> by_name;
};

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : contents_(std::make_shared<const Contents>(path)) {}

const std::vector<TensorInfo>& SafetensorsFile::tensors() const {
  return contents_->header.tensors;
}

const TensorInfo* SafetensorsFile::find(const std::string& name) const {
  const auto found = contents_->by_name.find(name);
  return found == contents_->by_name.end() ? nullptr : found->second;
}

const std::map<std::string, std::string>& SafetensorsFile::metadata() const {
  return contents_->header.metadata;
}

const std::filesystem::path& SafetensorsFile::path() const {
  return contents_->file.path();
}

at::Tensor SafetensorsFile::view(const TensorInfo& info) const {
  const auto bytes = contents_->file.bytes();
  TORCH_INTERNAL_ASSERT(info.begin <= info.end && info.end <= bytes.size());
  if (info.begin == info.end) {
    return at::empty(info.shape, info.dtype);
  }
  // There are no read-only tensors. The pages are mapped read-only, so a write would fault.
  auto* const data = const_cast<std::byte*>(bytes.data() + info.begin);
  const bool aligned = reinterpret_cast<uintptr_t>(data) % c10::elementSize(info.dtype) == 0;
  if (!aligned) {
    at::Tensor copy = at::empty(info.shape, info.dtype);
    std::copy_n(data, info.end - info.begin, static_cast<std::byte*>(copy.data_ptr()));
    return copy;
  }
  return at::from_blob(
      data, info.shape, [keep = contents_](void*) {}, at::TensorOptions().dtype(info.dtype));
}

void SafetensorsFile::copy_to(const TensorInfo& info, at::Tensor target) const {
  TORCH_CHECK(target.sizes() == at::IntArrayRef(info.shape),
              "[safetensors] ",
              path().string(),
              ": tensor \"",
              info.name,
              "\": expected shape ",
              target.sizes(),
              ", found ",
              at::IntArrayRef(info.shape));
  if (!target.is_contiguous()) {
    const c10::NoGradGuard no_grad;
    target.copy_(view(info));
    contents_->file.release(info.begin, info.end - info.begin);
    return;
  }
  copy_part_to(info, 0, target);
}

void SafetensorsFile::copy_part_to(const TensorInfo& info,
                                   int64_t begin,
                                   const at::Tensor& target) const {
  const c10::NoGradGuard no_grad;
  const at::Tensor source = view(info).view(-1);
  TORCH_CHECK(begin >= 0 && begin <= source.numel() && target.numel() <= source.numel() - begin,
              "[safetensors] ",
              path().string(),
              ": tensor \"",
              info.name,
              "\": expected elements ",
              begin,
              " to ",
              begin + target.numel(),
              ", found ",
              source.numel());
  const at::Tensor from = source.narrow(0, begin, target.numel());
  const at::Tensor to = target.view(-1);
  const auto item = static_cast<int64_t>(c10::elementSize(info.dtype));
  const int64_t chunk = kChunkBytes / item;
  for (int64_t done = 0; done < from.numel(); done += chunk) {
    const int64_t count = std::min(chunk, from.numel() - done);
    copy_chunk(from.narrow(0, done, count), to.narrow(0, done, count));
    contents_->file.release(info.begin + static_cast<uint64_t>((begin + done) * item),
                            static_cast<uint64_t>(count * item));
  }
}

}  // namespace reprise
