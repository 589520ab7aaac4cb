// Functions that rows of operators() call. Each is compiled here and also kept as text, so that a
// printed program can bring those that it uses.
#pragma once

#include <reprise/autocast.h>
#include <reprise/reprise.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <vector>

/// Defines a function and remembers its text.
#define REPRISE_FUZZ_HELPER(NAME, ...) \
  __VA_ARGS__                          \
  inline constexpr Helper NAME##_helper{#NAME, #__VA_ARGS__};

namespace reprise::fuzz::helpers {

struct Helper {
  std::string_view name;
  std::string_view text;
};

// clang-format off
REPRISE_FUZZ_HELPER(leaf,
inline at::Tensor leaf(at::IntArrayRef shape, at::ScalarType dtype, double phase) {
  const auto count = c10::multiply_integers(shape);
  return torch::sin(torch::arange(count, torch::kDouble) * 1.7 + phase).reshape(shape).to(dtype);
})

REPRISE_FUZZ_HELPER(observed_gradient,
inline at::Tensor observed_gradient(const at::Tensor& tensor) {
  const bool has = tensor.defined() && tensor.requires_grad() && (tensor.is_leaf() || tensor.retains_grad());
  return has ? tensor.grad() : at::Tensor();
})

REPRISE_FUZZ_HELPER(list,
inline std::vector<at::Tensor> list(const std::tuple<at::Tensor, at::Tensor>& pair) {
  return {std::get<0>(pair), std::get<1>(pair)};
})

REPRISE_FUZZ_HELPER(four,
inline at::Tensor four(const at::Tensor& weight) {
  return torch::cat({weight, weight.t(), -weight, weight * 0.5});
})

REPRISE_FUZZ_HELPER(three,
inline at::Tensor three(const at::Tensor& weight) {
  return torch::cat({weight, weight.t(), -weight});
})

REPRISE_FUZZ_HELPER(scale_gradient,
inline at::Tensor scale_gradient(const at::Tensor& tensor, double factor) {
  tensor.register_hook([factor](const at::Tensor& gradient) { return gradient * factor; });
  return tensor;
})

REPRISE_FUZZ_HELPER(count_gradient,
inline at::Tensor count_gradient(const at::Tensor& tensor, const at::Tensor& counter) {
  tensor.register_hook([counter](const at::Tensor&) { counter.add_(1); });
  return tensor;
})

REPRISE_FUZZ_HELPER(track_gradient,
inline at::Tensor track_gradient(const at::Tensor& tensor, const at::Tensor& total) {
  tensor.register_hook([total](const at::Tensor& gradient) {
    const torch::NoGradGuard no_grad;
    total.mul_(0.5).add_(torch::real(gradient).sum());
  });
  return tensor;
})

REPRISE_FUZZ_HELPER(noisy_gradient,
inline at::Tensor noisy_gradient(const at::Tensor& tensor) {
  tensor.register_hook(
      [](const at::Tensor& gradient) { return gradient * torch::rand_like(gradient); });
  return tensor;
})

REPRISE_FUZZ_HELPER(bend_gradient,
inline at::Tensor bend_gradient(const at::Tensor& tensor) {
  tensor.register_hook([](const at::Tensor& gradient) {
    const torch::AutoGradMode enabled(true);
    const auto point = gradient.detach().set_requires_grad(true);
    const auto bent = torch::autograd::grad({torch::tanh(point).sum()}, {point});
    return gradient + bent[0];
  });
  return tensor;
})

REPRISE_FUZZ_HELPER(count_node,
inline at::Tensor count_node(const at::Tensor& tensor, const at::Tensor& counter) {
  struct Count : torch::autograd::FunctionPostHook {
    explicit Count(at::Tensor counted) : counter(std::move(counted)) {}
    torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                              const torch::autograd::variable_list&) override {
      counter.add_(1);
      return outputs;
    }
    at::Tensor counter;
  };
  if (tensor.grad_fn()) {
    tensor.grad_fn()->add_post_hook(std::make_unique<Count>(counter));
  }
  return tensor;
})

REPRISE_FUZZ_HELPER(fail_once,
inline at::Tensor fail_once(const at::Tensor& tensor) {
  auto has_failed = std::make_shared<bool>(false);
  tensor.register_hook([has_failed](const at::Tensor&) {
    if (!*has_failed) {
      *has_failed = true;
      throw std::runtime_error("thrown in backward");
    }
  });
  return tensor;
})

REPRISE_FUZZ_HELPER(gradient_of,
inline at::Tensor gradient_of(const at::Tensor& leaf) {
  return leaf.grad().defined() ? leaf.grad().clone() : torch::zeros_like(leaf);
})

REPRISE_FUZZ_HELPER(zero_gradient,
inline at::Tensor zero_gradient(const at::Tensor& leaf) {
  if (leaf.grad().defined()) {
    leaf.mutable_grad().detach_().zero_();
  }
  return leaf;
})

REPRISE_FUZZ_HELPER(draw_from_copy,
inline at::Tensor draw_from_copy(const at::Generator& generator, at::IntArrayRef shape, const at::TensorOptions& options) {
  return torch::rand(shape, std::optional<at::Generator>(generator.clone()), options);
})

REPRISE_FUZZ_HELPER(reseed,
inline at::Tensor reseed(at::Generator generator, uint64_t seed) {
  generator.set_current_seed(seed);
  return at::Tensor();
})

REPRISE_FUZZ_HELPER(apply_all,
inline at::Tensor apply_all(const std::vector<std::function<at::Tensor(at::Tensor)>>& functions, at::Tensor value) {
  for (const auto& function : functions) {
    value = function(value);
  }
  return value;
})

REPRISE_FUZZ_HELPER(rethrow_ours,
inline void rethrow_ours(const c10::Error& error) {
  const std::string_view text = error.what_without_backtrace();
  if (text.find("[reprise]") != text.npos || text.find("ReentrantCheckpoint") != text.npos) {
    throw;
  }
})

REPRISE_FUZZ_HELPER(drop_in_place,
inline at::Tensor drop_in_place(at::Tensor tensor) {
  return torch::dropout_(tensor, 0.4, true);
})

REPRISE_FUZZ_HELPER(ticket,
inline int64_t ticket(const at::Tensor& runs) {
  auto& dispatcher = c10::Dispatcher::singleton();
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  if (!dispatcher.findSchema({"reprise_fuzz::ticket", ""})) {
    static torch::Library library(torch::Library::FRAGMENT, "reprise_fuzz", std::nullopt, "", 0);
    library.def("ticket(Tensor runs) -> int",
                [](const at::Tensor& n) { return ++*n.mutable_data_ptr<int64_t>(); });
    reprise::register_effectful_op("reprise_fuzz::ticket");
  }
  return dispatcher.findSchemaOrThrow("reprise_fuzz::ticket", "").typed<int64_t(const at::Tensor&)>().call(runs);
})

REPRISE_FUZZ_HELPER(fail,
inline at::Tensor fail() {
  throw std::runtime_error("thrown");
})

REPRISE_FUZZ_HELPER(sgd_step,
inline at::Tensor sgd_step(const at::Tensor& parameter) {
  const torch::NoGradGuard no_grad;
  if (parameter.grad().defined()) {
    parameter.sub_(parameter.grad() * 0.1);
    parameter.mutable_grad().reset();
  }
  return parameter;
})

REPRISE_FUZZ_HELPER(draw_directly,
inline at::Tensor draw_directly(at::Generator generator, const at::TensorOptions& options) {
  auto* numbers = generator.get<at::CPUGeneratorImpl>();
  const std::scoped_lock lock(generator.mutex());
  return torch::full({}, static_cast<double>(numbers->random() % 1000) / 1000, options);
})

REPRISE_FUZZ_HELPER(Cube,
struct Cube : torch::autograd::Function<Cube> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    const auto result = x * x * x;
    context->save_for_backward({x, result});
    return result;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    return {gradients[0] * saved[0] * saved[0] * 3};
  }
};)

REPRISE_FUZZ_HELPER(keep_by_hash,
inline std::shared_ptr<const reprise::Policy> keep_by_hash(size_t salt) {
  return reprise::policy::from([salt](const reprise::OpContext& op) {
    const bool writes = op.name.ends_with('_') || op.overload == "out" ||
                        op.name.find("batch_norm") != std::string_view::npos ||
                        op.name.find("rrelu") != std::string_view::npos;
    const size_t hash = std::hash<std::string_view>()(op.name) + op.call_index * 7 + salt;
    return !writes && hash % 3 == 0 ? reprise::Decision::Keep : reprise::Decision::Recompute;
  });
})

REPRISE_FUZZ_HELPER(compress_masks,
inline std::shared_ptr<const reprise::Policy> compress_masks() {
  return reprise::policy::from([](const reprise::OpContext& op) {
    const bool is_mask = op.name == "aten::gt" || op.name == "aten::lt";
    return is_mask ? reprise::Decision::Compress : reprise::Decision::Recompute;
  });
})
// clang-format on

/// Those that a printed program may need, in an order in which they compile.
inline std::vector<Helper> all() {
  return {leaf_helper,           observed_gradient_helper,
          list_helper,           four_helper,
          three_helper,          scale_gradient_helper,
          count_gradient_helper, track_gradient_helper,
          noisy_gradient_helper, bend_gradient_helper,
          count_node_helper,     fail_once_helper,
          gradient_of_helper,    zero_gradient_helper,
          draw_from_copy_helper, reseed_helper,
          apply_all_helper,      rethrow_ours_helper,
          drop_in_place_helper,  fail_helper,
          sgd_step_helper,       draw_directly_helper,
          Cube_helper,           keep_by_hash_helper,
          compress_masks_helper, ticket_helper};
}

}  // namespace reprise::fuzz::helpers
