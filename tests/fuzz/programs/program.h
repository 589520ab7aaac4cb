// A random program as a value: instructions over numbered registers that hold tensors.
//
// A register is assigned once. An instruction reads registers, assigns new ones, and may hold
// blocks: a region's body, a loop's, a try's. A block may read every register of the blocks around
// it; in a region that is a capture. What an operator computes is in operators.h.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::fuzz {

using Register = int;
/// The generator of a draw: an explicit one by number, or this.
inline constexpr int kDefaultGenerator = -1;

enum class Kind : uint8_t {
  Operator,       ///< a row of operators()
  Region,         ///< a call of reprise::checkpoint; inputs are its arguments
  Loop,           ///< runs its block `integer` times; results are the next round's parameters
  Sequential,     ///< reprise::checkpoint_sequential of its blocks, in `integer` segments
  NoGrad,         ///< runs its block in no-grad mode
  EnableGrad,     ///< runs its block in grad mode
  Inference,      ///< runs its block in inference mode; what leaves it is cloned
  BelowAutograd,  ///< runs its block below autograd
  Autocast,       ///< runs its block under autocast to bfloat16
  Try,            ///< runs its block and catches what it throws; assigns nothing
  Thread,         ///< runs its block on a new thread and waits
  Parallel,       ///< runs its blocks at the same time, each on its own thread
  Group,          ///< runs its block in a GraphExecGroup
  Backward,  ///< torch::autograd::backward of the first `integer` inputs, into the others alone if
             ///< there are any
  Grad,      ///< torch::autograd::grad: the first `integer` inputs by the others
};

enum class PolicyKind : uint8_t { None, Full, SaveMatmuls, SaveOps, KeepByHash, CompressMasks };

/// The options of a region; the defaults are those of CheckpointOptions.
struct RegionOptions {
  bool use_reentrant = false;
  bool preserve_rng_state = true;
  bool early_stop = true;
  int determinism_check = 1;  ///< as in DeterminismCheck
  PolicyKind policy = PolicyKind::None;
  int every = 1;   ///< of SaveMatmuls; salt of KeepByHash
  std::string op;  ///< of SaveOps
  bool lists_generators = false;

  bool operator==(const RegionOptions&) const = default;
};

struct Instruction;

struct Block {
  std::vector<Register> parameters;
  std::vector<Instruction> body;
  std::vector<Register> results;
};

struct Instruction {
  Kind kind = Kind::Operator;
  int op = 0;  ///< of an operator, its row
  std::vector<Register> inputs;
  std::vector<Register> outputs;
  double number = 1;
  int64_t integer = 1;
  int generator = kDefaultGenerator;
  bool retain_graph = false;  ///< of Backward and Grad
  bool create_graph = false;
  RegionOptions options;
  std::vector<Block> blocks;
};

/// A tensor that exists before the program starts. Types are those of operators.h.
struct Leaf {
  Register reg = 0;
  char type = 'a';
  bool requires_grad = false;
};

struct Program {
  uint64_t seed = 0;
  int rows = 2;     ///< R
  int columns = 2;  ///< D; even
  c10::ScalarType dtype = c10::kFloat;
  int generators = 0;  ///< how many explicit generators
  int registers = 0;   ///< one more than the largest
  std::vector<Leaf> leaves;
  std::vector<Instruction> body;
};

/// Calls `visit(instruction)` for all instructions of a list, those in blocks included, outer ones
/// first.
template <class Instructions, class Visit>
void for_each_instruction(Instructions& list, const Visit& visit) {
  for (auto& instruction : list) {
    visit(instruction);
    for (auto& block : instruction.blocks) {
      for_each_instruction(block.body, visit);
    }
  }
}

/// The registers that a block reads and does not assign itself, in ascending order.
std::vector<Register> captures(const Block& block);

/// How many instructions a program has, those in blocks included.
size_t instruction_count(const Program& program);

}  // namespace reprise::fuzz
