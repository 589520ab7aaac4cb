// Edits that leave a program's structure as it is: plainer options, numbers, shapes and inputs.
#include "fuzz/programs/edits.h"
#include "fuzz/programs/operators.h"
#include "fuzz/programs/places.h"

#include <algorithm>
#include <utility>

namespace reprise::fuzz {
namespace {

/// As many explicit generators as are used.
bool drop_generators(Program& program) {
  int used = 0;
  for_each_instruction(program.body, [&used](const Instruction& instruction) {
    used = std::max(used, instruction.generator + 1);
  });
  return std::exchange(program.generators, used) != used;
}

}  // namespace

std::vector<Edit> simplifications(const Program& program, size_t at) {
  std::vector<Edit> edits;
  const auto set = [at](auto member, auto value) {
    return change_at(at, [member, value](Instruction& edited) {
      return edited.*member != value && ((edited.*member = value), true);
    });
  };
  const auto set_option = [at](auto member, auto value) {
    return change_at(at, [member, value](Instruction& edited) {
      return edited.options.*member != value && ((edited.options.*member = value), true);
    });
  };
  const auto set_program = [](auto member, auto value) {
    return [member, value](Program& edited) {
      return edited.*member != value && ((edited.*member = value), true);
    };
  };
  const auto* instruction = instruction_at(program, at);
  if (instruction == nullptr) {
    edits = {set_program(&Program::columns, 2),
             set_program(&Program::dtype, c10::kFloat),
             drop_generators};
    for (size_t i = 0; i < program.leaves.size(); ++i) {
      edits.emplace_back(
          [i](Program& edited) { return std::exchange(edited.leaves[i].requires_grad, false); });
    }
    return edits;
  }
  if (instruction->kind == Kind::Region || instruction->kind == Kind::Sequential) {
    edits = {change_at(at,
                       [](Instruction& edited) {
                         // A region that draws directly must list its generators.
                         RegionOptions simplest;
                         simplest.lists_generators = edited.options.lists_generators;
                         return std::exchange(edited.options, simplest) != simplest;
                       }),
             set_option(&RegionOptions::use_reentrant, false),
             set_option(&RegionOptions::preserve_rng_state, true),
             set_option(&RegionOptions::early_stop, true),
             set_option(&RegionOptions::determinism_check, 1),
             set_option(&RegionOptions::policy, PolicyKind::None),
             set_option(&RegionOptions::every, 1)};
    return edits;
  }
  edits = {set(&Instruction::number, 1.0),
           set(&Instruction::generator, kDefaultGenerator),
           set(&Instruction::retain_graph, false),
           set(&Instruction::create_graph, false)};
  if (instruction->kind == Kind::Loop && instruction->integer > 2) {
    edits.push_back(set(&Instruction::integer, int64_t{2}));
  }
  if (instruction->kind == Kind::Backward) {
    for (size_t i = 0; i < instruction->inputs.size(); ++i) {
      edits.push_back(change_at(at, [i](Instruction& edited) {
        const bool is_loss = static_cast<int64_t>(i) < edited.integer;
        edited.integer -= is_loss ? 1 : 0;
        erase_at(edited.inputs, i);
        return edited.integer > 0;
      }));
    }
  }
  return edits;
}

std::vector<Edit> redirections(const Program& program, size_t at) {
  const auto* instruction = instruction_at(program, at);
  if (instruction == nullptr) {
    return {};
  }
  const auto is_leaf = [&program](Register reg) {
    return std::any_of(program.leaves.begin(), program.leaves.end(), [reg](const Leaf& leaf) {
      return leaf.reg == reg;
    });
  };
  const bool is_row = instruction->kind == Kind::Operator;
  const auto types = operators()[static_cast<size_t>(instruction->op)].input_types();
  std::vector<Edit> edits;
  for (size_t i = 0; i < instruction->inputs.size(); ++i) {
    if (is_leaf(instruction->inputs[i])) {
      continue;
    }
    for (const auto& leaf : program.leaves) {
      if (is_row && types[i] != 'x' && types[i] != leaf.type) {
        continue;
      }
      edits.push_back(change_at(at, [i, reg = leaf.reg](Instruction& edited) {
        edited.inputs[i] = reg;
        return true;
      }));
    }
  }
  return edits;
}

}  // namespace reprise::fuzz
