// A group of parameters in one contiguous storage, divided into equal parts, one per process.
//
// Note [Parameters without memory]
// The parameters of a group are views of one storage, adjacent so that fused matrix products can
// use them together. Under fsdp that storage is empty between passes; a gather allocates it again
// and fills it by one collective without a copy. All views of the storage, including tensors saved
// for backward, see the values again, and no version counter changes: autograd does not notice.
#pragma once

#include <reprise/dist/world.h>
#include <reprise/io/tensor_part.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise {

/// What each process has of a group.
enum class FlatKind : uint8_t {
  Untouched,   ///< all of it: frozen parameters in their own storages
  Replicated,  ///< all of it, in one storage
  Sharded,     ///< its part; all of it while gathered
};

class FlatGroup {
 public:
  struct Settings {
    FlatKind kind = FlatKind::Replicated;
    at::TensorOptions options;  ///< device and dtype of the parameters
    at::ScalarType reduce_dtype = at::kFloat;
    bool is_offloaded = false;  ///< the part is in host memory
    bool sums_whole = false;    ///< gradients are all-reduced (ddp), not reduce-scattered
    int64_t block = 1;          ///< elements of a parameter that stay in one part
  };

  /// The parameters have one dtype and are all trained or all frozen. Copies their values.
  FlatGroup(std::vector<std::pair<std::string, at::Tensor>> parameters,
            const World& world,
            const Settings& settings);

  bool is_sharded() const { return settings_.kind == FlatKind::Sharded; }
  bool is_trained() const { return is_trained_; }
  int64_t resident_bytes() const;   ///< parameters in this process between passes
  int64_t parameter_bytes() const;  ///< all parameters, without padding
  int64_t whole_bytes() const;      ///< all parameters, with padding
  int64_t gradient_bytes() const;   ///< input of a gradient reduction
  int64_t result_bytes() const;     ///< its output in this process

  /// Gathers and frees the parameters of a Sharded group.
  void start_gather(const std::string& what);
  void finish_gather();
  void free();

  /// All-gathers the updated parts of a Replicated group (zero2). finish_gather() completes it.
  void start_sync(const std::string& what);

  void begin_micro_batch() { is_reduced_ = false; }
  /// Starts to sum the parameters' gradients over the processes. False if there are none.
  bool start_reduction(const std::string& what);
  /// Adds the sum to the gradients of this process's parts.
  void finish_reduction();
  /// The gradients of this process's parts, and what is known about them.
  struct Gradients {
    bool is_agreed = false;
    std::vector<std::pair<bool, at::Tensor>> of_members;  ///< whether it has had one, and it
  };
  /// Leaves none behind.
  Gradients set_gradients_aside();
  /// Drops all gradients since then, also those that are being summed.
  void put_back(Gradients gradients);
  /// '1' or '0' for each parameter: whether it has had a gradient. See Note [Which parameters have
  /// a gradient].
  std::string gradients_seen() const;
  /// Sets what all processes together have seen.
  void agree_on_gradients(std::string_view seen);

  /// Appends the parts that this process updates, without empty ones.
  void add_trained(std::vector<TensorPart>& parts) const;
  /// This process's part of a parameter; std::nullopt if the parameter is not in this group.
  std::optional<TensorPart> part_of(const std::string& name, const at::Tensor& parameter) const;

 private:
  struct Member {
    std::string name;
    at::Tensor parameter;
    int64_t begin = 0;          // offset in the flat storage
    int64_t count = 0;          // elements
    int64_t kept_begin = 0;     // this process's elements: offset in the parameter
    int64_t kept_count = 0;     // and their number, which may be 0
    at::Tensor values;          // what this process updates and saves, flat; under ddp all of it
    bool has_gradient = false;  // seen here; once agreed on, seen in any process
  };

  void lay_out();
  void take_values();
  at::Tensor values_of(const Member& member) const;
  at::Tensor kept_of(const Member& member) const;
  /// Zeroes padding and missing gradients.
  void zero_padding(const at::Tensor& flat) const;

  const World& world_;
  Settings settings_;
  bool is_trained_;
  std::vector<Member> members_;
  int64_t part_numel_ = 0;  // elements per part
  at::Tensor whole_;        // flat view of the storage of the parameters
  at::Tensor part_;         // this process's part
  PendingCollective gather_;
  at::Tensor sent_;  // during a gather: the part on the device
  PendingCollective reduction_;
  bool is_agreed_ = false;   // the processes know which parameters have gradients
  bool is_reduced_ = false;  // a reduction was started in this micro-batch
  at::Tensor gradients_, reduced_;
};

}  // namespace reprise
