// Small pieces that the programs are made of.
#pragma once

#include "law/law.h"

#include <reprise/autocast.h>

#include <torch/torch.h>

#include <utility>
#include <vector>

namespace reprise::testing {

using Tensors = std::vector<at::Tensor>;

/// Numbers of both signs that need no generator.
inline at::Tensor sines(at::IntArrayRef sizes,
                        double phase = 0,
                        at::ScalarType dtype = at::kFloat) {
  const auto steps = torch::arange(c10::multiply_integers(sizes), at::kDouble);
  return (steps * 0.7 + phase).sin().reshape(sizes).to(dtype);
}

inline at::Tensor sine_leaf(at::IntArrayRef sizes,
                            double phase = 0,
                            at::ScalarType dtype = at::kFloat) {
  return sines(sizes, phase, dtype).set_requires_grad(true);
}

/// Gives the parameters of a module numbers that need no generator.
inline void fill_with_sines(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  double phase = 0;
  for (auto& parameter : module.parameters()) {
    parameter.copy_(sines(parameter.sizes(), phase += 1) * 0.5);
  }
}

/// Everything that training leaves in a module: parameters, gradients, buffers.
inline Tensors contents_of(const torch::nn::Module& module) {
  Tensors contents;
  for (const auto& parameter : module.parameters()) {
    contents.push_back(parameter.detach());
    contents.push_back(parameter.grad());
  }
  for (const auto& buffer : module.buffers()) {
    contents.push_back(buffer);
  }
  return contents;
}

/// What the error about a captured tensor says that changed after forward.
inline constexpr const char* kModified = "modified by an inplace operation since forward";

inline Tensors joined(Tensors first, const Tensors& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

inline std::vector<Way> values_way() {
  return {{"values", {.determinism_check = DeterminismCheck::Values, .name = "attacked"}}};
}

/// Plain autograd refuses the program, so every way must.
inline void refused_as_plainly(const Program& program,
                               const std::vector<Way>& others = all_ways()) {
  EXPECT_THROW(observe(program, Way()), c10::Error);
  for (const auto& way : others) {
    SCOPED_TRACE(way.name());
    EXPECT_THROW(observe(program, way), c10::Error);
  }
}

/// Sets a value back at the end of its scope.
template <class Value>
class Restored {
 public:
  Restored(Value before, std::function<void(Value)> set)
      : before_(std::move(before)), set_(std::move(set)) {}
  ~Restored() { set_(before_); }
  Restored(const Restored&) = delete;
  Restored& operator=(const Restored&) = delete;

 private:
  Value before_;
  std::function<void(Value)> set_;
};

}  // namespace reprise::testing
