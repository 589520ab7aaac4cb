#include "checkpoint/state/content_sample.h"

#include <algorithm>
#include <cstring>

namespace reprise::detail {
namespace {

constexpr int64_t kSamples = 8;

uint64_t mixed(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL;
  return hash ^ (hash >> 29U);
}

uint64_t read_bytes(const char* from, size_t count) {
  uint64_t value = 0;
  std::memcpy(&value, from, std::min(count, sizeof(value)));
  return value;
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

/// Calls `visit(address)` for up to kSamples elements. False if they cannot be read at once.
template <class Visit>
bool for_each_sample(const at::Tensor& tensor, const Visit& visit) {
  // Bytes may be a library's workspace, which is not written as a whole.
  if (tensor.scalar_type() == at::kByte || tensor.layout() != c10::kStrided ||
      !tensor.device().is_cpu() || tensor.numel() == 0 || tensor.is_nested() ||
      tensor.is_quantized() || !tensor.has_storage()) {
    return false;
  }
  const auto* base = static_cast<const char*>(tensor.storage().data());
  if (base == nullptr) {
    return false;
  }
  const auto size = static_cast<int64_t>(tensor.element_size());
  const auto sizes = tensor.sizes(), strides = tensor.strides();
  const Positions positions(tensor.numel());
  const bool is_contiguous = tensor.is_contiguous();
  const int64_t first = tensor.storage_offset();
  for (int64_t i = 0; i < positions.size(); ++i) {
    int64_t rest = positions[i];
    int64_t offset = first;
    if (is_contiguous) {
      offset += rest;
    } else {
      for (size_t d = sizes.size(); d-- > 0; rest /= sizes[d]) {
        offset += rest % sizes[d] * strides[d];
      }
    }
    visit(base + offset * size);
  }
  return true;
}

template <class T>
double number_at(const char* address) {
  T value;
  std::memcpy(&value, address, sizeof(T));
  return static_cast<double>(value);
}

}  // namespace

uint64_t content_sample(const at::Tensor& tensor) {
  uint64_t hash = 1;
  const size_t size = tensor.element_size();
  const bool is_read = for_each_sample(
      tensor, [&](const char* address) { hash = mixed(hash, read_bytes(address, size)); });
  // Lazy bits change what the elements mean.
  return is_read ? mixed(hash, (tensor.is_conj() ? 1U : 0U) | (tensor.is_neg() ? 2U : 0U)) | 1U : 0;
}

std::vector<double> value_sample(const at::Tensor& tensor) {
  std::vector<double> values;
  for_each_sample(tensor, [&](const char* address) {
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
  const auto* base = static_cast<const char*>(storage.data());
  const auto words = static_cast<int64_t>(storage.nbytes() / sizeof(uint64_t));
  if (!storage.device().is_cpu() || base == nullptr || storage.nbytes() == 0) {
    return 0;
  }
  uint64_t hash = 1;
  if (words > 0) {
    const Positions positions(words);
    for (int64_t i = 0; i < positions.size(); ++i) {
      hash = mixed(hash,
                   read_bytes(base + positions[i] * int64_t{sizeof(uint64_t)}, sizeof(uint64_t)));
    }
  }
  const size_t tail = storage.nbytes() % sizeof(uint64_t);
  return mixed(hash, tail == 0 ? 0 : read_bytes(base + storage.nbytes() - tail, tail)) | 1U;
}

}  // namespace reprise::detail
