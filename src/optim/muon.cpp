// Muon: the momentum of a hidden matrix, made orthogonal, is its update. Everything else, and the
// matrices of embeddings and heads, gets AdamW. The operators are those of torch.optim.Muon.
#include "optim/elementwise_rule.h"
#include "optim/matrix_rules.h"
#include "optim/whole_parameters.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

namespace reprise {
namespace {

constexpr double kDefaultMomentum = 0.95;
constexpr int kIterations = 5;
constexpr double kLeastNorm = 1e-7;
// Coefficients of X, XX'X and XX'XX'X: the slope at zero is as large as possible.
constexpr double kLinear = 3.4445, kCubic = -4.7750, kQuintic = 2.0315;

/// A matrix with the singular vectors of `matrix` and singular values near 1, by iterations of
/// Newton and Schulz in bfloat16.
at::Tensor orthogonalized(const at::Tensor& matrix) {
  const bool is_tall = matrix.size(0) > matrix.size(1);
  at::Tensor x = matrix.to(at::kBFloat16, /*non_blocking=*/false, /*copy=*/true);
  x = is_tall ? x.t() : x;
  x.div_(x.norm().clamp(kLeastNorm));
  for (int i = 0; i < kIterations; ++i) {
    const at::Tensor gram = x.matmul(x.t());
    const at::Tensor change = at::addmm(gram, gram, gram, kCubic, kQuintic);
    x = at::addmm(x, change, x, kLinear);
  }
  return is_tall ? x.t() : x;
}

double rate_of(MuonRate rule, double learning_rate, at::IntArrayRef shape) {
  const auto rows = static_cast<double>(shape[0]);
  const auto columns = static_cast<double>(shape[1]);
  switch (rule) {
    case MuonRate::MatchRmsAdamW:
      return learning_rate * 0.2 * std::sqrt(std::max(rows, columns));
    case MuonRate::Original:
      return learning_rate * std::sqrt(std::max(1.0, rows / columns));
    case MuonRate::SpectralUnclamped:
      return learning_rate * std::sqrt(rows / columns);
  }
  TORCH_INTERNAL_ASSERT(false, "no such rule of rates");
}

class Muon final : public UpdateRule {
 public:
  explicit Muon(const OptimizerOptions& options)
      : rate_(options.muon_rate),
        momentum_(options.momentum.value_or(kDefaultMomentum)),
        adamw_(make_adamw(options)) {}

  void check(const TensorPart& part) const override { check_is_whole(part, OptimizerKind::Muon); }

  std::vector<StateSpec> state_of(const TensorPart& part) const override {
    if (is_hidden_matrix(part.name, std::ssize(part.shape))) {
      return {state_like(part, "momentum_buffer")};
    }
    return adamw_->state_of(part);
  }

  bool needs_all_of(const ParameterState& state) const override {
    return state.buffers.size() == 1;
  }

  void step(const std::vector<const ParameterState*>& parameters,
            double learning_rate) const override {
    std::vector<const ParameterState*> others;
    for (const ParameterState* state : parameters) {
      if (needs_all_of(*state)) {
        update(*state, learning_rate);
      } else {
        others.push_back(state);
      }
    }
    adamw_->step(others, learning_rate);
  }

  // The direction in float32 and three in bfloat16; of a 16-bit parameter, the gradient in float32.
  int64_t update_bytes(const std::vector<const ParameterState*>& parameters) const override {
    int64_t bytes = 0;
    std::vector<const ParameterState*> others;
    for (const ParameterState* state : parameters) {
      if (!needs_all_of(*state)) {
        others.push_back(state);
        continue;
      }
      const int64_t shorter = std::min(state->shape[0], state->shape[1]);
      const int64_t width = 4 + 3 * 2 + (state->master.defined() ? 4 : 0);
      const int64_t squares = 6 * shorter * shorter;
      bytes = std::max(bytes, state->parameter.numel() * width + squares);
    }
    return std::max(bytes, adamw_->update_bytes(others));
  }

 private:
  void update(const ParameterState& state, double learning_rate) const {
    const at::Tensor value = shaped_value(state);
    const at::Tensor grad = shaped_grad(state).to(value.scalar_type());
    const at::Tensor momentum = state.buffers[0].view(state.shape);
    momentum.lerp_(grad, 1 - momentum_);
    const at::Tensor direction = orthogonalized(grad.lerp(momentum, momentum_));
    value.mul_(1 - learning_rate * state.weight_decay);
    value.add_(direction, -rate_of(rate_, learning_rate, state.shape));
    if (state.master.defined()) {
      state.parameter.view(state.shape).copy_(value);
    }
  }

  MuonRate rate_;
  double momentum_;
  std::unique_ptr<const UpdateRule> adamw_;
};

}  // namespace

// Embeddings and heads of the families, of scores and of values, as their checkpoints name them.
bool is_hidden_matrix(std::string_view name, int64_t dimensions) {
  constexpr std::array<std::string_view, 15> kOuter = {"embed_tokens",
                                                       "embed_positions",
                                                       "project_in",
                                                       "project_out",
                                                       "word_embeddings",
                                                       "embed_in",
                                                       "embed_out",
                                                       "wte",
                                                       "wpe",
                                                       "lm_head",
                                                       "output_layer",
                                                       "score",
                                                       "classifier",
                                                       "v_head",
                                                       "value_head"};
  if (dimensions != 2) {
    return false;
  }
  size_t begin = 0;
  while (begin <= name.size()) {
    const size_t end = std::min(name.find('.', begin), name.size());
    if (std::find(kOuter.begin(), kOuter.end(), name.substr(begin, end - begin)) != kOuter.end()) {
      return false;
    }
    begin = end + 1;
  }
  return true;
}

std::unique_ptr<const UpdateRule> make_muon(const OptimizerOptions& options) {
  return std::make_unique<Muon>(options);
}

}  // namespace reprise
