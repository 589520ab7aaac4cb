// How much memory a training run may take, as the user specifies it.
#pragma once

#include <reprise/export.h>

#include <c10/core/DeviceType.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace reprise {

/// An amount of memory, in bytes or relative to what the step needs.
struct Budget {
  enum class Kind : uint8_t {
    Bytes,
    Fraction,  ///< of what the step takes without checkpointing
    Min,       ///< the least with which the step can run
    Max,       ///< what the step takes without checkpointing
    Auto,      ///< what is free on the device
  };

  Kind kind = Kind::Bytes;
  int64_t bytes = 0;
  double fraction = 0;

  REPRISE_API std::string describe() const;
};

/// Parses "6GiB", "500MB", "4096B" (also KB, GB, TB, KiB, MiB, TiB, and decimals), a fraction above
/// 0 and up to 1, "min", "max" or "auto". `name` is the option that error messages name.
REPRISE_API Budget parse_budget(const std::string& name, const std::string& text);

/// Parses bytes with a unit.
REPRISE_API int64_t parse_bytes(const std::string& name, const std::string& text);

/// The most bytes that a plan may predict so that `bytes` are not exceeded. It is a little less,
/// because allocators round: malloc every tensor by a few bytes, CUDA's allocator next to nothing.
REPRISE_API int64_t planned_bytes(int64_t bytes, c10::DeviceType device);
/// The inverse: a budget that a prediction of `bytes` fits.
REPRISE_API int64_t budget_for(int64_t bytes, c10::DeviceType device);

/// The limits of a run. With neither `activations` nor `total` there is no limit, and blocks are
/// checkpointed as the model is set up.
struct MemoryLimits {
  /// Peak of a step beyond parameters, gradients, optimizer state and everything else that stays
  /// allocated: kept tensors, working memory, chunks of the loss.
  std::optional<Budget> activations = {};
  /// Peak of everything on the device.
  std::optional<Budget> total = {};
  int64_t host_bytes = 0;    ///< host memory for offloaded tensors; 0: nothing is offloaded
  bool allow_lossy = false;  ///< allow lossy compression
  /// Whether optimizer state and gradients may leave a GPU if a total budget needs it.
  bool may_offload_state = true, may_offload_gradients = true;
  /// Plans of an earlier run of the same model, to use instead of planning again.
  std::filesystem::path plan_file = {};

  bool is_set() const { return activations || total || !plan_file.empty(); }
};

}  // namespace reprise
