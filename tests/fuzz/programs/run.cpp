#include "fuzz/programs/run.h"

#include "fuzz/programs/helpers.h"
#include "fuzz/programs/operators.h"
#include "fuzz/programs/scope.h"

#include <map>
#include <tuple>

namespace reprise::fuzz {
namespace {

/// Leaves of one form have the same content in every program, so each is computed once.
at::Tensor leaf_value(const Program& program, const Leaf& leaf) {
  const auto shape = shape_of(leaf.type, program.rows, program.columns);
  if (leaf.type == 'n') {
    return torch::zeros({}, torch::kLong);
  }
  if (leaf.type == 'g') {
    return torch::zeros({}, torch::kDouble);
  }
  if (leaf.type == 'i') {
    return torch::arange(program.rows, torch::kLong).remainder(program.columns);
  }
  using Key = std::tuple<std::vector<int64_t>, at::ScalarType, Register>;
  thread_local std::map<Key, at::Tensor> known;
  auto& value = known[{shape, program.dtype, leaf.reg}];
  if (!value.defined()) {
    value = helpers::leaf(shape, program.dtype, leaf.reg);
  }
  return value.clone();
}

/// Without its graph, which refers to the program.
at::Tensor value_of(const at::Tensor& tensor) {
  return tensor.defined() && tensor.requires_grad() ? tensor.detach() : tensor;
}

/// Leaves whose gradients have a graph form a cycle with it.
struct GradientReset {
  explicit GradientReset(Tensors leaf_tensors) : leaves(std::move(leaf_tensors)) {}
  ~GradientReset() {
    for (const auto& leaf : leaves) {
      if (leaf.is_leaf()) {
        leaf.mutable_grad().reset();
      }
    }
  }
  GradientReset(const GradientReset&) = delete;
  GradientReset& operator=(const GradientReset&) = delete;
  const Tensors leaves;
};

}  // namespace

std::vector<at::Tensor> run(const Program& program, const RunOptions& options) {
  Context context{program, options, at::TensorOptions(program.dtype), {}, {}};
  for_each_instruction(program.body, [&context](const Instruction& instruction) {
    if (instruction.kind == Kind::Region || instruction.kind == Kind::Sequential) {
      for (const auto& block : instruction.blocks) {
        context.captures[&block] = captures(block);
      }
    }
  });
  auto default_generator = at::detail::getDefaultCPUGenerator();
  default_generator.set_current_seed(program.seed);
  for (int i = 0; i < program.generators; ++i) {
    context.generators.push_back(
        at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(i + 1)));
  }
  Scope scope(context, 0);
  Tensors leaves;
  for (const auto& leaf : program.leaves) {
    leaves.push_back(leaf_value(program, leaf).set_requires_grad(leaf.requires_grad));
    scope.at(leaf.reg) = leaves.back();
  }
  const GradientReset reset(leaves);
  scope.run(program.body);

  Tensors seen;
  for (Register reg = 0; reg < program.registers; ++reg) {
    seen.push_back(value_of(scope.at(reg)));
  }
  for (Register reg = 0; reg < program.registers; ++reg) {
    seen.push_back(value_of(helpers::observed_gradient(scope.at(reg))));
  }
  seen.push_back(default_generator.get_state());
  for (const auto& generator : context.generators) {
    seen.push_back(generator.get_state());
  }
  return seen;
}

std::string observed_name(const Program& program, size_t index) {
  const auto registers = static_cast<size_t>(program.registers);
  if (index < registers) {
    return "r" + std::to_string(index);
  }
  index -= registers;
  if (index < registers) {
    return "the gradient of r" + std::to_string(index);
  }
  index -= registers;
  return index == 0 ? "the default generator" : "generator g" + std::to_string(index - 1);
}

}  // namespace reprise::fuzz
