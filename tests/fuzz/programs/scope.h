// Runs the instructions of a program over a set of registers.
#pragma once

#include "fuzz/programs/operators.h"
#include "fuzz/programs/program.h"
#include "fuzz/programs/run.h"

#include <ATen/core/Generator.h>

#include <unordered_map>
#include <vector>

namespace reprise::fuzz {

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

}  // namespace reprise::fuzz
