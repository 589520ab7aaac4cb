// The state of random number generators, captured before a region's forward and restored for its
// recompute.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>

#include <memory>
#include <optional>
#include <vector>

namespace reprise::detail {

/// The state of one generator. A CUDA generator's is a seed and an offset on the host, so there is
/// no device synchronization.
class GeneratorState {
 public:
  explicit GeneratorState(at::Generator generator);
  void restore() const;
  /// The current state of the same generator.
  GeneratorState now() const { return GeneratorState(generator_); }
  const at::Generator& generator() const { return generator_; }
  bool operator==(const GeneratorState& other) const;

 private:
  struct Mersenne {
    at::mt19937 engine;
    std::optional<float> next_float;
    std::optional<double> next_double;
  };
  at::Generator generator_;
  std::optional<Mersenne> mersenne_;  // CPU generators
  uint64_t seed_ = 0;                 // all others
  uint64_t offset_ = 0;
};

/// The default generators of the CPU and of every CUDA device, and `extra` ones.
class RngState {
 public:
  explicit RngState(const std::vector<at::Generator>& extra);
  void restore() const;
  /// Forgets the generators that have not been used since. Returns whether any is left.
  bool keep_changed();
  bool covers(const at::Generator& generator) const;
  /// The current state of the same generators.
  RngState now() const;

 private:
  friend struct RngStateRecycler;
  GeneratorState cpu_;
  bool covers_cpu_ = true;
  std::vector<GeneratorState> others_;
};

/// Most regions use no random numbers and free their state at once. It is a few kilobytes, for
/// which malloc is slow, so each thread keeps some blocks for reuse.
struct RngStateRecycler {
  void operator()(RngState* state) const;
};
using RngStatePtr = std::unique_ptr<RngState, RngStateRecycler>;
RngStatePtr take_rng_state(const std::vector<at::Generator>& extra);

/// Restores `state` for its scope (null: does nothing), and the caller's state at the end.
class RngGuard {
 public:
  explicit RngGuard(const RngState* state);
  ~RngGuard();
  RngGuard(const RngGuard&) = delete;
  RngGuard& operator=(const RngGuard&) = delete;

 private:
  std::optional<RngState> callers_;
};

/// The generator that random operators on `device` use by default.
at::Generator default_generator(c10::Device device);

/// Whether the current CUDA stream is being captured into a graph. Then generators have no state on
/// the host, and nothing can be read from the device.
bool is_capturing_graph();

}  // namespace reprise::detail
