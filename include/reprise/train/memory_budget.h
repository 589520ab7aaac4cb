// How much memory a training run may take, as its user says it.
#pragma once

#include <reprise/export.h>

#include <c10/core/DeviceType.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace reprise {

/// An amount of memory: bytes, or something that becomes bytes when the step is known.
struct Budget {
  enum class Kind : uint8_t {
    Bytes,
    Fraction,  ///< of what the step takes without checkpointing
    Min,       ///< the least that the step can do with
    Max,       ///< what it takes without checkpointing
    Auto,      ///< what the device has left
  };

  Kind kind = Kind::Bytes;
  int64_t bytes = 0;
  double fraction = 0;

  REPRISE_API std::string describe() const;
};

/// "6GiB", "500MB", "4096B" (also KB, GB, TB, KiB, MiB, TiB, and decimals), a number above 0 and up
/// to 1, "min", "max" or "auto". `name` is the flag, for messages.
REPRISE_API Budget parse_budget(const std::string& name, const std::string& text);

/// The same, bytes with a unit only.
REPRISE_API int64_t parse_bytes(const std::string& name, const std::string& text);

/// What a plan may predict on a device so that `bytes` are not exceeded: allocators round. malloc
/// rounds every tensor by a few bytes, CUDA's allocator next to nothing.
REPRISE_API int64_t planned_bytes(int64_t bytes, c10::DeviceType device);
/// A budget that a prediction of `bytes` fits.
REPRISE_API int64_t budget_for(int64_t bytes, c10::DeviceType device);

/// What a run may take. Neither `activations` nor `total`: whatever its own checkpointing takes.
struct MemoryLimits {
  /// Peak of a step beyond parameters, gradients, optimizer state and what else is there all the
  /// time: kept tensors, working memory, chunks of the loss.
  std::optional<Budget> activations = {};
  /// Peak of everything on the device.
  std::optional<Budget> total = {};
  int64_t host_bytes = 0;    ///< for tensors that wait in host memory; 0: none do
  bool allow_lossy = false;  ///< tensors may be compressed so that bits are lost
  /// Plans of an earlier run of the same model, to be followed instead of planning anew.
  std::filesystem::path plan_file = {};

  bool is_set() const { return activations || total || !plan_file.empty(); }
};

}  // namespace reprise
