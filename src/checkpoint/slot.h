// What a frame remembers about each tensor that autograd saved in forward.
#pragma once

#include <reprise/options.h>

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace reprise::detail {

/// The tensor's sizes; empty for a nested tensor, which has no single list of sizes.
inline c10::IntArrayRef comparable_sizes(const at::Tensor& tensor) {
  return tensor.is_nested() ? c10::IntArrayRef() : tensor.sizes();
}

/// One saved tensor, without holding it.
struct Slot {
  Slot(const at::Tensor& saved, size_t slot_index, DeterminismCheck check);

  /// The saved tensor's version counter. As in autograd, a change since forward is an error.
  c10::VariableVersion version_counter;
  uint32_t version;
  uint32_t index;  ///< in the order of saving
  /// False once autograd has released the slot.
  std::atomic<bool> is_needed{true};
  /// Saved by the node that computed it, so it was complete when it was saved.
  bool is_result;
  /// Saved by the custom function that computed it: see Note [Custom functions save undisturbed].
  bool is_custom_result;
  /// A leaf with a gradient: its version tells whether its content is the same.
  bool is_parameter;
  c10::ScalarType dtype;
  c10::Device device;
  /// Sequence number of the node that saved it, on the thread that ran forward.
  uint64_t sequence_number;
  const c10::TensorImpl* tensor;  ///< only compared, in forward
  /// See Note [Samples of values]; 0: none.
  uint64_t sample = 0;
  /// Content hash for DeterminismCheck::Values, on the tensor's device; undefined if the content is
  /// not compared.
  at::Tensor hash;
  c10::SmallVector<int64_t, 5> sizes;
};

/// A list of slots that do not move, because hooks on other threads refer to them.
class SlotList {
 public:
  SlotList() = default;
  ~SlotList() {
    for (size_t i = size_; i-- > 0;) {
      (*this)[i].~Slot();
    }
  }
  SlotList(const SlotList&) = delete;
  SlotList& operator=(const SlotList&) = delete;

  Slot& add(const at::Tensor& tensor, DeterminismCheck check) {
    if (size_ == blocks_.size() * kInBlock) {
      blocks_.push_back(std::make_unique_for_overwrite<Block>());
    }
    auto* slot = new (&(*blocks_[size_ / kInBlock])[size_ % kInBlock]) Slot(tensor, size_, check);
    ++size_;
    return *slot;
  }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Slot& operator[](size_t index) {
    return reinterpret_cast<Slot&>((*blocks_[index / kInBlock])[index % kInBlock]);
  }
  const Slot& operator[](size_t index) const {
    return reinterpret_cast<const Slot&>((*blocks_[index / kInBlock])[index % kInBlock]);
  }
  template <class Condition>
  bool all(const Condition& condition) const {
    for (size_t i = 0; i < size_; ++i) {
      if (!condition((*this)[i])) {
        return false;
      }
    }
    return true;
  }
  const Slot& back() const { return (*this)[size_ - 1]; }

 private:
  /// Below a kilobyte: malloc keeps blocks of such sizes at hand, and tidies up before it gives out
  /// larger ones.
  static constexpr size_t kInBlock = 8;
  struct Memory {
    alignas(Slot) std::array<std::byte, sizeof(Slot)> bytes;
  };
  using Block = std::array<Memory, kInBlock>;
  static_assert(sizeof(Block) < 1024);

  c10::SmallVector<std::unique_ptr<Block>, 4> blocks_;
  size_t size_ = 0;
};

}  // namespace reprise::detail
