// Copies between a device and host memory, both ways at once, beside what the device computes.
//
// Each way has a stream. Copies of one way run in the order in which they were started; a CopyMark
// is a point in a stream, which others wait for. On a CPU (Note [Tiers]) copies run when somebody
// waits for them and not before, so code that uses, overwrites or frees bytes too early gets wrong
// ones there, too.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace reprise::memory {

enum class CopyWay : uint8_t { ToDevice, ToHost };

/// Contiguous tensors of one dtype and size.
struct TensorCopy {
  at::Tensor to, from;
};

/// A point that copies pass. One that was made by default has been passed.
struct CopyMark {
  std::shared_ptr<const c10::Event> event = nullptr;  ///< on a GPU
  size_t end = 0;                                     ///< on a CPU: copies of its way until then
  CopyWay way = CopyWay::ToDevice;
};

/// Used by one thread at a time.
class REPRISE_API CopyStreams {
 public:
  explicit CopyStreams(c10::Device device) : device_(device) {}
  /// Waits for all copies: neither device nor host memory may be freed before.
  ~CopyStreams();
  CopyStreams(const CopyStreams&) = delete;
  CopyStreams& operator=(const CopyStreams&) = delete;

  /// Starts copies that run after what the device's current stream has to do now, and after
  /// `earlier`. The caller keeps the tensors until it has waited for the mark.
  CopyMark start(CopyWay way, const std::vector<TensorCopy>& copies, const CopyMark& earlier = {});

  /// What is launched on the current stream from now on runs after the mark.
  void wait(const CopyMark& mark);
  /// The same for all copies that were started.
  void wait_for_all() noexcept;
  /// This thread waits for all copies, to use host memory.
  void synchronize();

  c10::Device device() const { return device_; }
  /// Of all copies that were started, both ways together.
  int64_t bytes() const { return bytes_; }

 private:
  struct Piece {
    void* to;
    const void* from;
    size_t bytes;
    CopyMark earlier;
  };
  template <class Values>
  static auto& at(Values& values, CopyWay way) {
    return values[static_cast<size_t>(way)];
  }
  CopyMark start_on_gpu(CopyWay way,
                        const std::vector<TensorCopy>& copies,
                        const CopyMark& earlier);
  void run_until(const CopyMark& mark);

  c10::Device device_;
  int64_t bytes_ = 0;
  std::array<CopyMark, 2> last_;
  std::array<std::optional<c10::Stream>, 2> streams_;  // CUDA
  std::array<std::deque<Piece>, 2> pieces_;            // CPU
  std::array<size_t, 2> done_{};                       // CPU
};

/// At its end, also by an exception, the current stream waits for all copies.
class CopyScope {
 public:
  explicit CopyScope(CopyStreams& copies) : copies_(copies) {}
  ~CopyScope() { copies_.wait_for_all(); }
  CopyScope(const CopyScope&) = delete;
  CopyScope& operator=(const CopyScope&) = delete;

 private:
  CopyStreams& copies_;
};

}  // namespace reprise::memory
