// The state of a random number generator, and copies that nobody else draws from.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace reprise::detail {

/// Tells in a few words whether a generator has been used since: two marks of a generator are equal
/// if it has the same state.
struct GeneratorMark {
  /// Empty for a generator whose state cannot be read, during a CUDA graph capture.
  static std::optional<GeneratorMark> of(const at::Generator& generator);
  bool operator==(const GeneratorMark&) const = default;
  /// Whether nothing has been drawn since a seed was set.
  bool is_fresh(c10::Device device) const {
    return position == (device.is_cpu() ? uint64_t{1} << 32U : 0);
  }

  uint64_t seed = 0;
  uint64_t position = 0;
  uint64_t content = 0;
};

/// The state of one generator. A CUDA generator's is a seed and an offset on the host, so there is
/// no device synchronization. Cheap to copy.
class GeneratorState {
 public:
  explicit GeneratorState(at::Generator generator);
  /// The same, with the generator's mutex held by the caller.
  static GeneratorState of_locked(at::Generator generator);

  void restore() const { restore_to(generator_); }
  /// Gives another generator of the same kind this state.
  void restore_to(at::Generator other) const;
  /// The same, with the mutex of `other` held by the caller.
  void restore_to_locked(at::Generator other) const;

  /// The current state of the same generator.
  GeneratorState now() const { return GeneratorState(generator_); }
  const at::Generator& generator() const { return generator_; }
  GeneratorMark mark() const;
  /// Whether it has been seeded since `other`, a state of the same generator.
  bool was_seeded_since(const GeneratorState& other) const;
  bool operator==(const GeneratorState& other) const;

 private:
  struct Mersenne {
    at::mt19937 engine;
    std::optional<float> next_float;
    std::optional<double> next_double;
  };
  GeneratorState() = default;
  void read();

  at::Generator generator_;
  std::shared_ptr<const Mersenne> mersenne_;  // CPU generators
  uint64_t seed_ = 0;                         // all others
  uint64_t offset_ = 0;
};

/// A generator of this thread alone, for one operator. Its objects are reused.
class PrivateGenerator {
 public:
  /// Of the same kind as the generator of `state`, and in that state.
  explicit PrivateGenerator(const GeneratorState& state);
  ~PrivateGenerator();
  PrivateGenerator(const PrivateGenerator&) = delete;
  PrivateGenerator& operator=(const PrivateGenerator&) = delete;

  const at::Generator& get() const { return generator_; }
  GeneratorState state() const { return GeneratorState(generator_); }

  /// Whether `generator` is one that an operator on this thread draws from now.
  static bool is_one(const at::Generator& generator);

 private:
  at::Generator generator_;
};

/// The generator that random operators on `device` use by default.
at::Generator default_generator(c10::Device device);

/// Those of the CPU and of every CUDA device.
std::vector<at::Generator> default_generators();

/// Whether the current CUDA stream is being captured into a graph. Then generators have no state on
/// the host, and nothing can be read from the device.
bool is_capturing_graph();

}  // namespace reprise::detail
