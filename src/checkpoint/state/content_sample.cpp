#include "checkpoint/state/content_sample.h"

#include <algorithm>
#include <cstring>

namespace reprise::detail {
namespace {

constexpr int64_t kSamples = 8;

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15ULL;

uint64_t mixed(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * kGolden;
  return hash ^ (hash >> 29U);
}

uint64_t read_bytes(const char* from, size_t count) {
  uint64_t value = 0;
  std::memcpy(&value, from, std::min(count, sizeof(value)));
  return value;
}

uint64_t read_word(const char* from) {
  uint64_t value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

/// Five words of a contiguous piece of memory, or all of them. Never 0.
uint64_t sample_of(const char* begin, size_t bytes) {
  constexpr size_t kWord = sizeof(uint64_t);
  uint64_t hash = bytes;
  if (bytes >= 5 * kWord) [[likely]] {
    // The products do not depend on each other, so that they take little more time than one.
    hash += read_word(begin) * kGolden ^ read_word(begin + bytes / 4) * (kGolden + 2) ^
            read_word(begin + bytes / 2) * (kGolden + 4) ^
            read_word(begin + bytes - bytes / 4) * (kGolden + 6) ^
            read_word(begin + bytes - kWord) * (kGolden + 8);
  } else {
    for (size_t i = 0; i < bytes; i += kWord) {
      hash = mixed(hash, read_bytes(begin + i, bytes - i));
    }
  }
  return (hash ^ hash >> 29U) | 1U;
}

/// From the first to the last of `count` elements, with one division.
class Positions {
 public:
  explicit Positions(int64_t count)
      : last_(count - 1), step_(count <= kSamples ? 1 : last_ / (kSamples - 1)) {}
  int64_t size() const { return std::min(last_ + 1, kSamples); }
  int64_t operator[](int64_t sample) const { return sample + 1 == size() ? last_ : sample * step_; }

 private:
  int64_t last_;
  int64_t step_;
};

/// Where the elements are; null if they cannot be read at once. Bytes may be a library's workspace,
/// which is not written as a whole.
const char* readable_memory_of(const at::Tensor& tensor) {
  const auto& impl = *tensor.unsafeGetTensorImpl();
  const auto* const storage = impl.unsafe_storage().unsafeGetStorageImpl();
  const bool is_readable = impl.key_set().has(c10::DispatchKey::CPU) && storage != nullptr &&
                           impl.numel() > 0 && tensor.scalar_type() != at::kByte;
  const auto* base = is_readable ? static_cast<const char*>(storage->data()) : nullptr;
  return base == nullptr
             ? nullptr
             : base + impl.storage_offset() * static_cast<int64_t>(impl.dtype().itemsize());
}

/// Calls `visit(address)` for up to kSamples elements of a tensor that begins at `begin`.
template <class Visit>
void for_each_sample(const at::Tensor& tensor, const char* begin, const Visit& visit) {
  const auto size = static_cast<int64_t>(tensor.element_size());
  const auto sizes = tensor.sizes(), strides = tensor.strides();
  const Positions positions(tensor.numel());
  for (int64_t i = 0; i < positions.size(); ++i) {
    int64_t rest = positions[i];
    int64_t offset = 0;
    for (size_t d = sizes.size(); d-- > 0; rest /= sizes[d]) {
      offset += rest % sizes[d] * strides[d];
    }
    visit(begin + offset * size);
  }
}

template <class T>
double number_at(const char* address) {
  T value;
  std::memcpy(&value, address, sizeof(T));
  return static_cast<double>(value);
}

}  // namespace

uint64_t content_sample(const at::Tensor& tensor) {
  const char* const begin = readable_memory_of(tensor);
  if (begin == nullptr) {
    return 0;
  }
  const size_t size = tensor.dtype().itemsize();
  uint64_t hash = 1;
  if (tensor.is_contiguous()) [[likely]] {
    hash = sample_of(begin, static_cast<size_t>(tensor.numel()) * size);
  } else {
    for_each_sample(
        tensor, begin, [&](const char* address) { hash = mixed(hash, read_bytes(address, size)); });
  }
  // Lazy bits change what the elements mean.
  return (hash ^ (tensor.is_conj() ? 2U : 0U) ^ (tensor.is_neg() ? 4U : 0U)) | 1U;
}

std::vector<double> value_sample(const at::Tensor& tensor) {
  std::vector<double> values;
  const char* const begin = readable_memory_of(tensor);
  if (begin == nullptr) {
    return values;
  }
  values.reserve(kSamples);
  for_each_sample(tensor, begin, [&](const char* address) {
    switch (tensor.scalar_type()) {
      case at::kFloat:
        values.push_back(number_at<float>(address));
        break;
      case at::kDouble:
        values.push_back(number_at<double>(address));
        break;
      case at::kBFloat16:
        values.push_back(number_at<c10::BFloat16>(address));
        break;
      case at::kHalf:
        values.push_back(number_at<c10::Half>(address));
        break;
      default:
        break;
    }
  });
  return values;
}

uint64_t content_sample(const c10::StorageImpl& storage) {
  const auto* begin = static_cast<const char*>(storage.data());
  return !storage.device().is_cpu() || begin == nullptr || storage.nbytes() == 0
             ? 0
             : sample_of(begin, storage.nbytes());
}

}  // namespace reprise::detail
