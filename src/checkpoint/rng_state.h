// The state of random number generators, taken before a region's forward and put back for its
// recompute.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>

#include <memory>
#include <optional>
#include <vector>

namespace reprise::detail {

/// One generator's state. CUDA's is a seed and an offset on the host: no device sync.
class GeneratorState {
 public:
  explicit GeneratorState(at::Generator generator);
  void restore() const;
  /// The same generator as it is now.
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
  /// Forgets generators that are still in the remembered state: nobody drew from them. Returns
  /// whether any is left.
  bool keep_changed();
  bool covers(const at::Generator& generator) const;
  /// The same generators as they are now.
  RngState now() const;

 private:
  friend struct RngStateRecycler;
  GeneratorState cpu_;
  bool covers_cpu_ = true;
  std::vector<GeneratorState> others_;
};

/// Most regions draw nothing and give their state back at once. It is a few kilobytes, and malloc
/// takes its time for blocks of that size, so each thread keeps some.
struct RngStateRecycler {
  void operator()(RngState* state) const;
};
using RngStatePtr = std::unique_ptr<RngState, RngStateRecycler>;
RngStatePtr take_rng_state(const std::vector<at::Generator>& extra);

/// Puts `state` in force (null: leaves things as they are) and brings the caller's back at the end.
class RngGuard {
 public:
  explicit RngGuard(const RngState* state);
  ~RngGuard();
  RngGuard(const RngGuard&) = delete;
  RngGuard& operator=(const RngGuard&) = delete;

 private:
  std::optional<RngState> callers_;
};

/// The generator that a random operator on `device` uses when it is given none.
at::Generator default_generator(c10::Device device);

/// Whether the current stream of a CUDA device is being captured into a graph. Generators then have
/// no state on the host that could be taken, and nothing on the device can be read.
bool is_recorded();

}  // namespace reprise::detail
