// Adafactor with the arithmetic of transformers' class: the mean square of a matrix's gradients is
// kept as that of its rows and of its columns. Matrices are gone through in slices of rows, so that
// no temporary is larger than a slice; only sums over slices are rounded differently.
#include "optim/elementwise_rule.h"
#include "optim/matrix_rules.h"
#include "optim/stochastic_rounding.h"
#include "optim/whole_parameters.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace reprise {
namespace {

constexpr int64_t kRowSliceElements = int64_t{1} << 22;
constexpr double kLeastSquare = 1e-30;
constexpr double kLeastScale = 1e-3;
constexpr double kDecayRate = -0.8;

/// A parameter as a batch of matrices, (B, R, C). One that is not factored is a batch of rows.
struct Matrices {
  explicit Matrices(const ParameterState& state) {
    const int64_t elements = state.parameter.numel();
    columns = state.shape.empty() ? 1 : state.shape.back();
    is_factored = state.shape.size() >= 2;
    rows = is_factored ? state.shape[state.shape.size() - 2] : 1;
    batch = elements / std::max<int64_t>(1, rows * columns);
    value = state.parameter.view({batch, rows, columns});
    grad = state.parameter.grad().reshape({batch, rows, columns});
  }

  /// Calls visit(index in the batch, first row, rows) for slices that cover all.
  template <class Visit>
  void for_each_slice(const Visit& visit) const {
    const int64_t each = std::max<int64_t>(1, kRowSliceElements / std::max<int64_t>(1, columns));
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t row = 0; row < rows; row += each) {
        visit(b, row, std::min(each, rows - row));
      }
    }
  }

  at::Tensor grad_of(int64_t b, int64_t row, int64_t count) const {
    return grad.select(0, b).narrow(0, row, count).to(at::kFloat);
  }

  bool is_factored;
  int64_t batch, rows, columns;
  at::Tensor value, grad;
};

/// The root of the mean of squares, given norms of the parts of a tensor.
at::Tensor rms_of(const std::vector<at::Tensor>& norms, int64_t elements) {
  return at::stack(norms).norm() / std::sqrt(static_cast<double>(elements));
}

class Adafactor final : public UpdateRule {
 public:
  explicit Adafactor(const OptimizerOptions& options) : options_(options) {}

  void check(const TensorPart& part) const override {
    const at::ScalarType dtype = part.values.scalar_type();
    TORCH_CHECK(dtype == at::kFloat || dtype == at::kBFloat16,
                "[optim] adafactor: parameter \"",
                part.name,
                "\": expected float32 or bfloat16, got ",
                dtype,
                ". Use adamw for it");
    check_is_whole(part, OptimizerKind::Adafactor);
  }

  bool has_copies() const override { return false; }
  bool needs_all_of(const ParameterState&) const override { return true; }

  std::vector<StateSpec> state_of(const TensorPart& part) const override {
    if (part.shape.size() < 2) {
      return {state_like(part, "exp_avg_sq")};
    }
    std::vector<int64_t> rows(part.shape.begin(), part.shape.end() - 1);
    std::vector<int64_t> columns = part.shape;
    columns.erase(columns.end() - 2);
    return {whole_state("exp_avg_sq_row", std::move(rows)),
            whole_state("exp_avg_sq_col", std::move(columns))};
  }

  void step(const std::vector<const ParameterState*>& parameters,
            double learning_rate) const override {
    for (const ParameterState* state : parameters) {
      if (state->parameter.numel() > 0) {
        update(*state, learning_rate);
      }
    }
  }

  // The direction and what it is made from; of a bfloat16 parameter, weights and gradients too.
  int64_t update_bytes(const std::vector<const ParameterState*>& parameters) const override {
    int64_t bytes = 0;
    for (const ParameterState* state : parameters) {
      const int64_t columns = state->shape.empty() ? 1 : state->shape.back();
      const int64_t elements =
          std::min(std::max(kRowSliceElements, columns), state->parameter.numel());
      bytes = std::max(bytes, elements * 4 * (state->parameter.element_size() == 2 ? 4 : 2));
    }
    return bytes;
  }

 private:
  static StateSpec whole_state(std::string name, std::vector<int64_t> shape) {
    const int64_t count = c10::multiply_integers(shape);
    return {std::move(name), at::kFloat, std::move(shape), 0, count};
  }

  void update(const ParameterState& state, double learning_rate) const {
    const Matrices matrices(state);
    const at::Tensor rate = rate_of(state, learning_rate);
    const double fresh = std::pow(static_cast<double>(state.updates), kDecayRate);
    if (matrices.is_factored) {
      average_factors(matrices, state, fresh);
    } else {
      average(matrices, state, fresh);
    }
    std::vector<at::Tensor> norms;
    matrices.for_each_slice([&](int64_t b, int64_t row, int64_t count) {
      norms.push_back(direction(matrices, state, b, row, count).norm());
    });
    const at::Tensor clip = rms_of(norms, state.parameter.numel()).clamp_min(1);
    matrices.for_each_slice([&](int64_t b, int64_t row, int64_t count) {
      const at::Tensor change = direction(matrices, state, b, row, count).div_(clip).mul_(rate);
      store(matrices, state, change, rate, b, row);
    });
  }

  // Tensors of one element, so that nothing waits for a GPU.
  at::Tensor rate_of(const ParameterState& state, double learning_rate) const {
    const double rate =
        options_.relative_step ? relative_step_size(options_, state.updates) : learning_rate;
    const auto options = state.parameter.options().dtype(at::kFloat).requires_grad(false);
    if (!options_.scale_parameter) {
      return at::full({}, rate, options);
    }
    const at::Tensor norm = at::linalg_vector_norm(
        state.parameter, 2, at::OptionalIntArrayRef(), /*keepdim=*/false, at::kFloat);
    return rms_of({norm}, state.parameter.numel()).clamp_min(kLeastScale) * rate;
  }

  static void average_factors(const Matrices& matrices, const ParameterState& state, double fresh) {
    const at::Tensor rows = state.buffers[0].view({matrices.batch, matrices.rows});
    const at::Tensor columns = state.buffers[1].view({matrices.batch, matrices.columns});
    const at::Tensor sums = at::zeros_like(columns);
    matrices.for_each_slice([&](int64_t b, int64_t row, int64_t count) {
      const at::Tensor squares = matrices.grad_of(b, row, count).square().add_(kLeastSquare);
      rows[b].narrow(0, row, count).mul_(1 - fresh).add_(squares.mean(-1), fresh);
      sums[b].add_(squares.sum(0));
    });
    columns.mul_(1 - fresh).add_(sums.div_(static_cast<double>(matrices.rows)), fresh);
  }

  static void average(const Matrices& matrices, const ParameterState& state, double fresh) {
    const at::Tensor squares = matrices.grad_of(0, 0, 1).square().add_(kLeastSquare);
    state.buffers[0].view({1, -1}).mul_(1 - fresh).add_(squares, fresh);
  }

  /// The gradient, divided by the root of what is kept of its square.
  static at::Tensor direction(const Matrices& matrices,
                              const ParameterState& state,
                              int64_t b,
                              int64_t row,
                              int64_t count) {
    const at::Tensor grad = matrices.grad_of(b, row, count);
    if (!matrices.is_factored) {
      return state.buffers[0].view({1, -1}).rsqrt().mul_(grad);
    }
    const at::Tensor rows = state.buffers[0].view({matrices.batch, matrices.rows})[b];
    const at::Tensor columns = state.buffers[1].view({matrices.batch, matrices.columns})[b];
    const at::Tensor share = (rows.narrow(0, row, count) / rows.mean()).rsqrt_();
    return (share.unsqueeze(1) * columns.rsqrt()).mul_(grad);
  }

  void store(const Matrices& matrices,
             const ParameterState& state,
             const at::Tensor& change,
             const at::Tensor& rate,
             int64_t b,
             int64_t row) const {
    const at::Tensor target = matrices.value[b].narrow(0, row, change.size(0));
    const at::Tensor wide = target.to(at::kFloat);
    if (state.weight_decay > 0) {
      wide.add_(wide * (rate * -state.weight_decay));
    }
    wide.sub_(change);
    if (target.scalar_type() == at::kBFloat16) {
      const RoundingKey key(options_.seed, state.name, state.updates, /*purpose=*/0);
      const int64_t first = (b * matrices.rows + row) * matrices.columns;
      round_into(target.view({-1}), wide.view({-1}), key, first);
    }
  }

  OptimizerOptions options_;
};

}  // namespace

std::unique_ptr<const UpdateRule> make_adafactor(const OptimizerOptions& options) {
  return std::make_unique<Adafactor>(options);
}

}  // namespace reprise
