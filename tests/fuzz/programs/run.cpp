#include "fuzz/programs/run.h"

#include "fuzz/programs/helpers.h"
#include "fuzz/programs/operators.h"
#include "fuzz/programs/region_options.h"

#include <functional>
#include <future>
#include <map>
#include <stdexcept>
#include <tuple>
#include <unordered_map>

namespace reprise::fuzz {
namespace {

/// What all scopes of a run share.
struct Context {
  const Program& program;
  RunOptions options;
  at::TensorOptions tensor_options;
  std::vector<at::Generator> generators;
  std::unordered_map<const Block*, std::vector<Register>> captures;  // of regions
};

/// The registers of the program, or of one run of a region's body.
class Scope {
 public:
  Scope(const Context& context, int depth)
      : context_(context),
        depth_(depth),
        registers_(static_cast<size_t>(context.program.registers)) {}

  at::Tensor& at(Register reg) { return registers_[static_cast<size_t>(reg)]; }
  Tensors at(const std::vector<Register>& list) {
    Tensors tensors;
    tensors.reserve(list.size());
    for (const Register reg : list) {
      tensors.push_back(at(reg));
    }
    return tensors;
  }
  void assign(const std::vector<Register>& list, const Tensors& tensors) {
    TORCH_CHECK(tensors.size() >= list.size(), "[fuzz] too few results");
    for (size_t i = 0; i < list.size(); ++i) {
      at(list[i]) = tensors[i];
    }
  }
  void run(const std::vector<Instruction>& body) {
    for (const auto& instruction : body) {
      run(instruction);
    }
  }

 private:
  void run(const Instruction& instruction);
  void run_operator(const Instruction& instruction);
  void run_region(const Instruction& instruction);
  void run_sequential(const Instruction& instruction);
  auto function_of(const Block& block);
  void run_loop(const Instruction& instruction);
  void run_parallel(const Instruction& instruction);
  void run_grad(const Instruction& instruction);
  /// The block of a kind that only surrounds it, and what leaves it.
  void run_block(const Instruction& instruction) {
    run(instruction.blocks[0].body);
    assign(instruction.outputs, at(instruction.blocks[0].results));
  }

  const Context& context_;
  const int depth_;  // how many regions are around it
  Tensors registers_;
};

void Scope::run(const Instruction& instruction) {
  switch (instruction.kind) {
    case Kind::Operator:
      return run_operator(instruction);
    case Kind::Region:
      return run_region(instruction);
    case Kind::Loop:
      return run_loop(instruction);
    case Kind::NoGrad: {
      const torch::NoGradGuard no_grad;
      return run_block(instruction);
    }
    case Kind::EnableGrad: {
      const torch::AutoGradMode enabled(true);
      return run_block(instruction);
    }
    case Kind::Inference: {
      {
        const c10::InferenceMode inference;
        run(instruction.blocks[0].body);
      }
      auto results = at(instruction.blocks[0].results);
      for (auto& result : results) {
        result = result.clone();
      }
      return assign(instruction.outputs, results);
    }
    case Kind::BelowAutograd: {
      const at::AutoDispatchBelowADInplaceOrView below;
      return run_block(instruction);
    }
    case Kind::Sequential:
      return run_sequential(instruction);
    case Kind::Autocast: {
      const AutocastScope autocast(at::kCPU, at::kBFloat16);
      run(instruction.blocks[0].body);
      auto results = at(instruction.blocks[0].results);
      for (auto& result : results) {
        result = result.to(context_.program.dtype);
      }
      return assign(instruction.outputs, results);
    }
    case Kind::Try:
      try {
        run(instruction.blocks[0].body);
      } catch (const std::runtime_error&) {  // no c10::Error is one
      } catch (const c10::Error& error) {
        helpers::rethrow_ours(error);
      }
      return;
    case Kind::Thread:
      return std::async(std::launch::async, [&] { run_block(instruction); }).get();
    case Kind::Parallel:
      return run_parallel(instruction);
    case Kind::Group: {
      const GraphExecGroup group;
      return run_block(instruction);
    }
    case Kind::Backward: {
      auto losses = at(instruction.inputs);
      const Tensors into(losses.begin() + instruction.integer, losses.end());
      losses.resize(static_cast<size_t>(instruction.integer));
      return torch::autograd::backward(
          losses, {}, instruction.retain_graph, instruction.create_graph, into);
    }
    case Kind::Grad:
      return run_grad(instruction);
  }
}

void Scope::run_operator(const Instruction& instruction) {
  const auto& row = operators()[static_cast<size_t>(instruction.op)];
  std::optional<at::Generator> generator;
  if (instruction.generator != kDefaultGenerator) {
    generator = context_.generators[static_cast<size_t>(instruction.generator)];
  }
  auto results = row.run({instruction,
                          registers_,
                          std::move(generator),
                          context_.program.rows,
                          context_.program.columns,
                          context_.tensor_options});
  if (depth_ > 0 && context_.options.with_regions && context_.options.fault == instruction.op) {
    for (const auto& result : results) {
      if (result.defined() && result.requires_grad()) {
        helpers::scale_gradient(result, 2);
      }
    }
  }
  assign(instruction.outputs, results);
}

/// The block as a function that holds what it captures.
auto Scope::function_of(const Block& block) {
  const auto& captured = context_.captures.at(&block);
  return [&context = context_, &block, depth = depth_ + 1, &captured, values = at(captured)](
             const Tensors& arguments) {
    Scope scope(context, depth);
    scope.assign(captured, values);
    scope.assign(block.parameters, arguments);
    scope.run(block.body);
    return scope.at(block.results);
  };
}

void Scope::run_region(const Instruction& instruction) {
  const auto body = function_of(instruction.blocks[0]);
  assign(instruction.outputs,
         context_.options.with_regions
             ? checkpoint(checkpoint_options(instruction.options, context_.generators),
                          body,
                          at(instruction.inputs))
             : body(at(instruction.inputs)));
}

void Scope::run_sequential(const Instruction& instruction) {
  std::vector<std::function<at::Tensor(at::Tensor)>> functions;
  for (const auto& block : instruction.blocks) {
    functions.emplace_back(
        [body = function_of(block)](const at::Tensor& value) { return body({value})[0]; });
  }
  const auto& start = at(instruction.inputs[0]);
  const auto result =
      context_.options.with_regions
          ? checkpoint_sequential(checkpoint_options(instruction.options, context_.generators),
                                  functions,
                                  static_cast<size_t>(instruction.integer),
                                  start)
          : helpers::apply_all(functions, start);
  assign(instruction.outputs, {result});
}

void Scope::run_loop(const Instruction& instruction) {
  const Block& block = instruction.blocks[0];
  assign(block.parameters, at(instruction.inputs));
  for (int64_t i = 0; i < instruction.integer; ++i) {
    run(block.body);
    assign(block.parameters, at(block.results));
  }
  assign(instruction.outputs, at(block.parameters));
}

void Scope::run_parallel(const Instruction& instruction) {
  std::vector<std::future<void>> running;
  for (const auto& block : instruction.blocks) {
    // They assign different registers.
    running.push_back(std::async(std::launch::async, [this, &block] { run(block.body); }));
  }
  for (auto& block : running) {
    block.get();
  }
}

void Scope::run_grad(const Instruction& instruction) {
  auto losses = at(instruction.inputs);
  const Tensors inputs(losses.begin() + instruction.integer, losses.end());
  losses.resize(static_cast<size_t>(instruction.integer));
  auto gradients = torch::autograd::grad(losses,
                                         inputs,
                                         {},
                                         instruction.retain_graph || instruction.create_graph,
                                         instruction.create_graph,
                                         /*allow_unused=*/true);
  for (size_t i = 0; i < gradients.size(); ++i) {
    gradients[i] = gradients[i].defined() ? gradients[i] : torch::zeros_like(inputs[i]);
  }
  assign(instruction.outputs, gradients);
}

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
