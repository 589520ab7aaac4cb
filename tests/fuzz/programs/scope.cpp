#include "fuzz/programs/scope.h"

#include "fuzz/programs/helpers.h"
#include "fuzz/programs/region_options.h"

#include <functional>
#include <future>
#include <stdexcept>

namespace reprise::fuzz {

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

}  // namespace reprise::fuzz
