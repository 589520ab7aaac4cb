// Parameters that lie one after the other in memory, cut into equal parts for the processes.
//
// Note [Parameters without memory]
// The model's parameters are views of one storage, adjacent as the fast products want them. Under
// fsdp that storage is empty between passes; gathering gives it memory again, filled by one
// collective without a copy. Whoever holds the parameters, tensors saved for backward among them,
// sees the values come back, and no version counter moves: to autograd nothing happened.
#pragma once

#include <reprise/dist/world.h>
#include <reprise/io/tensor_part.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise {

/// What a process has of a group.
enum class FlatKind : uint8_t {
  Untouched,  ///< frozen parameters, whole, where they were
  Whole,      ///< all, in one storage
  Cut,        ///< its part; all while gathered
};

class FlatGroup {
 public:
  struct Settings {
    FlatKind kind = FlatKind::Whole;
    at::TensorOptions options;  ///< device and type of the parameters
    at::ScalarType reduce_dtype = at::kFloat;
    bool is_offloaded = false;  ///< the part is in main memory
    bool sums_whole = false;    ///< gradients are summed whole (ddp), not cut
  };

  /// Of one type, all trained or all frozen. Values are taken from the parameters.
  FlatGroup(std::vector<std::pair<std::string, at::Tensor>> parameters,
            const World& world,
            const Settings& settings);

  bool is_cut() const { return settings_.kind == FlatKind::Cut; }
  bool is_trained() const { return is_trained_; }
  int64_t resident_bytes() const;  ///< between passes
  int64_t parameter_bytes() const;
  int64_t whole_bytes() const;     ///< of the storage that they are in
  int64_t gradient_bytes() const;  ///< that a reduction hands in
  int64_t result_bytes() const;    ///< that it leaves here

  void start_gather(const std::string& what);  ///< of a Cut group
  void finish_gather();
  void free();

  /// A Whole group's parts go to everybody, by finish_gather().
  void start_sharing(const std::string& what);

  void begin_micro_batch() { is_reduced_ = false; }
  /// Takes the parameters' gradients into one sum over the processes. False: none has one.
  bool start_reduction(const std::string& what);
  /// Adds it to the gradients of trained().
  void finish_reduction();
  /// Note [Which parameters have a gradient]: a letter for each, and what all processes together
  /// have seen.
  std::string gradients_seen() const;
  void agree_on_gradients(std::string_view seen);

  /// What this process updates; empty parts are left out.
  void add_trained(std::vector<TensorPart>& parts) const;
  /// What this process keeps of a parameter; nothing if it is of another group.
  std::optional<TensorPart> part_of(const std::string& name, const at::Tensor& parameter) const;

 private:
  struct Member {
    std::string name;
    at::Tensor parameter;
    int64_t begin = 0;          // in the whole
    int64_t count = 0;          // elements
    int64_t kept_begin = 0;     // of this process's elements, in the parameter
    int64_t kept_count = 0;     // may be 0
    at::Tensor values;          // that this process updates and saves: flat; under ddp all of them
    bool has_gradient = false;  // here so far; when that is agreed on, in some process
  };

  void lay_out();
  void take_values();
  at::Tensor values_of(const Member& member) const;
  at::Tensor kept_of(const Member& member) const;
  void zero_gaps(const at::Tensor& flat) const;

  const World& world_;
  Settings settings_;
  bool is_trained_;
  std::vector<Member> members_;
  int64_t chunk_ = 0;  // elements of a part
  at::Tensor whole_;   // flat, over the storage that parameters are views of
  at::Tensor part_;
  PendingCollective gather_;
  at::Tensor sent_;  // the part on the device, while it is gathered from main memory
  PendingCollective reduction_;
  bool is_agreed_ = false;   // which parameters have a gradient
  bool is_reduced_ = false;  // in this micro-batch
  at::Tensor gradients_, reduced_;
};

}  // namespace reprise
