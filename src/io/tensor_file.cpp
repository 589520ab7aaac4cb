// A safetensors file, or one of torch.save. Tensors are read into their target, or in pieces if
// they have to be converted: a loaded model takes its own memory, but not that of the file as well.
// Only view() of a large tensor maps the file.
#include "io/pickle/torch_header.h"
#include "io/random_access_file.h"
#include "io/safetensors/safetensors_header.h"

#include <reprise/io/file.h>
#include <reprise/io/tensor_file.h>

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <unordered_map>

namespace reprise {
namespace {

constexpr int64_t kPieceBytes = int64_t{8} << 20;
constexpr uint64_t kMappedBytes = uint64_t{1} << 20;  // smaller tensors are read by view() too

std::span<std::byte> bytes_of(const at::Tensor& contiguous) {
  return {static_cast<std::byte*>(contiguous.mutable_data_ptr()), contiguous.nbytes()};
}

io::SafetensorsHeader header_of(const io::RandomAccessFile& file) {
  const std::string source = file.path().string();
  const auto read = [&file](uint64_t offset, size_t bytes) {
    return file.read_text(offset, bytes);
  };
  const auto beginning = file.read_text(0, std::min<uint64_t>(file.size(), io::kTorchMark));
  return io::is_torch_file(beginning, source)
             ? io::read_torch_header(file.size(), read, source)
             : io::read_safetensors_header(file.size(), read, source);
}

}  // namespace

struct TensorFile::Contents {
  explicit Contents(const std::filesystem::path& path) : file(path), header(header_of(file)) {
    for (const TensorInfo& info : header.tensors) {
      by_name.emplace(info.name, &info);
    }
  }

  /// Maps the file at the first call.
  const MappedFile& mapped() const {
    std::call_once(is_mapped, [this] {
      mapping = std::make_unique<const MappedFile>(file.path());
      TORCH_CHECK(mapping->bytes().size() == file.size(),
                  "[tensors] ",
                  file.path().string(),
                  ": was replaced while it was in use");
    });
    return *mapping;
  }

  io::RandomAccessFile file;
  io::SafetensorsHeader header;
  std::unordered_map<std::string_view, const TensorInfo*> by_name;
  mutable std::once_flag is_mapped;
  mutable std::unique_ptr<const MappedFile> mapping;
};

TensorFile::TensorFile(const std::filesystem::path& path)
    : contents_(std::make_shared<const Contents>(path)) {}

const std::vector<TensorInfo>& TensorFile::tensors() const {
  return contents_->header.tensors;
}

const TensorInfo* TensorFile::find(const std::string& name) const {
  const auto found = contents_->by_name.find(name);
  return found == contents_->by_name.end() ? nullptr : found->second;
}

const std::map<std::string, std::string>& TensorFile::metadata() const {
  return contents_->header.metadata;
}

const std::filesystem::path& TensorFile::path() const {
  return contents_->file.path();
}

bool TensorFile::is_private() const {
  return contents_->file.is_private();
}

at::Tensor TensorFile::view(const TensorInfo& info) const {
  TORCH_INTERNAL_ASSERT(info.begin <= info.end && info.end <= contents_->file.size());
  const uint64_t bytes = info.end - info.begin;
  const bool is_aligned = info.begin % c10::elementSize(info.dtype) == 0;  // pages are
  if (bytes < kMappedBytes || !is_aligned) {
    at::Tensor copy = at::empty(info.shape, info.dtype);
    contents_->file.read(info.begin, bytes_of(copy));
    return copy;
  }
  // There are no read-only tensors. The pages are mapped read-only, so a write would fault.
  auto* const data = const_cast<std::byte*>(contents_->mapped().bytes().data() + info.begin);
  return at::from_blob(
      data, info.shape, [keep = contents_](void*) {}, at::TensorOptions().dtype(info.dtype));
}

void TensorFile::copy_to(const TensorInfo& info, at::Tensor target) const {
  TORCH_CHECK(target.sizes() == at::IntArrayRef(info.shape),
              "[tensors] ",
              path().string(),
              ": tensor \"",
              info.name,
              "\": expected shape ",
              target.sizes(),
              ", found ",
              at::IntArrayRef(info.shape));
  if (!target.is_contiguous()) {
    const c10::NoGradGuard no_grad;
    at::Tensor whole = at::empty(info.shape, info.dtype);
    contents_->file.read(info.begin, bytes_of(whole));
    target.copy_(whole);
    return;
  }
  copy_part_to(info, 0, target);
}

void TensorFile::copy_part_to(const TensorInfo& info,
                              int64_t begin,
                              const at::Tensor& target) const {
  const c10::NoGradGuard no_grad;
  const auto item = static_cast<int64_t>(c10::elementSize(info.dtype));
  const int64_t available = static_cast<int64_t>(info.end - info.begin) / item;
  TORCH_CHECK(begin >= 0 && begin <= available && target.numel() <= available - begin,
              "[tensors] ",
              path().string(),
              ": tensor \"",
              info.name,
              "\": expected elements ",
              begin,
              " to ",
              begin + target.numel(),
              ", found ",
              available);
  const uint64_t first = info.begin + static_cast<uint64_t>(begin * item);
  const at::Tensor to = target.view(-1);
  if (to.is_cpu() && to.scalar_type() == info.dtype) {
    contents_->file.read(first, bytes_of(to));
    return;
  }
  const int64_t chunk = std::min(kPieceBytes / item, to.numel());
  const at::Tensor piece = at::empty({chunk}, info.dtype);
  for (int64_t done = 0; done < to.numel(); done += chunk) {
    const at::Tensor from = piece.narrow(0, 0, std::min(chunk, to.numel() - done));
    contents_->file.read(first + static_cast<uint64_t>(done * item), bytes_of(from));
    to.narrow(0, done, from.numel()).copy_(from);
  }
}

}  // namespace reprise
