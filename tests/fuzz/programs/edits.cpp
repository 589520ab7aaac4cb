#include "fuzz/programs/edits.h"

#include "fuzz/programs/operators.h"

#include <algorithm>
#include <set>

namespace reprise::fuzz {
namespace {

/// Where an instruction stands.
struct Place {
  std::vector<Instruction>* list = nullptr;
  size_t index = 0;

  Instruction& instruction() const { return (*list)[index]; }
};

bool find(std::vector<Instruction>& list, size_t& at, Place& place) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (at-- == 0) {
      place = {&list, i};
      return true;
    }
    for (auto& block : list[i].blocks) {
      if (find(block.body, at, place)) {
        return true;
      }
    }
  }
  return false;
}

Place place_of(Program& program, size_t at) {
  Place place;
  find(program.body, at, place);
  return place;
}

const Instruction* instruction_at(const Program& program, size_t at) {
  const Instruction* found = nullptr;
  for_each_instruction(program.body, [&](const Instruction& instruction) {
    if (at-- == 0) {
      found = &instruction;
    }
  });
  return found;
}

void replace(std::vector<Register>& list, Register from, Register to) {
  std::replace(list.begin(), list.end(), from, to);
}

/// Every reader of `from` reads `to`.
void redirect(Program& program, Register from, Register to) {
  for_each_instruction(program.body, [from, to](Instruction& instruction) {
    replace(instruction.inputs, from, to);
    for (auto& block : instruction.blocks) {
      replace(block.results, from, to);
    }
  });
}

void erase_at(std::vector<Register>& list, size_t index) {
  if (index < list.size()) {
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(index));
  }
}

/// Argument `i` of a region becomes a capture.
bool capture_argument(Program& program, size_t at, size_t i) {
  auto& region = place_of(program, at).instruction();
  const Register parameter = region.blocks[0].parameters[i];
  const Register argument = region.inputs[i];
  erase_at(region.blocks[0].parameters, i);
  erase_at(region.inputs, i);
  redirect(program, parameter, argument);
  return true;
}

/// The blocks of a sequence one after the other.
void join(Program& program, const Instruction& sequence) {
  Register value = sequence.inputs[0];
  for (const auto& block : sequence.blocks) {
    redirect(program, block.parameters[0], value);
    value = block.results[0] == block.parameters[0] ? value : block.results[0];
  }
  redirect(program, sequence.outputs[0], value);
}

/// What a loop carries from round to round is read from outside instead.
bool drop_carried(Program& program, size_t at, size_t i) {
  auto& loop = place_of(program, at).instruction();
  const Register start = loop.inputs[i];
  const Register parameter = loop.blocks[0].parameters[i];
  const Register output = loop.outputs[i];
  erase_at(loop.inputs, i);
  erase_at(loop.outputs, i);
  erase_at(loop.blocks[0].parameters, i);
  erase_at(loop.blocks[0].results, i);
  redirect(program, parameter, start);
  redirect(program, output, start);
  return true;
}

/// As many explicit generators as are used.
bool drop_generators(Program& program) {
  int used = 0;
  for_each_instruction(program.body, [&used](const Instruction& instruction) {
    used = std::max(used, instruction.generator + 1);
  });
  return std::exchange(program.generators, used) != used;
}

/// An edit of the instruction number `at`.
template <class Change>
Edit change_at(size_t at, const Change& change) {
  return [at, change](Program& program) {
    const Place place = place_of(program, at);
    return place.list != nullptr && change(place.instruction());
  };
}

}  // namespace

std::vector<Edit> deletions(const Program& program, size_t at) {
  const auto* instruction = instruction_at(program, at);
  if (instruction == nullptr) {
    return {};
  }
  const auto remove = [at](Program& edited, std::vector<Register> substitutes) {
    const Place place = place_of(edited, at);
    const auto outputs = place.instruction().outputs;
    place.list->erase(place.list->begin() + static_cast<std::ptrdiff_t>(place.index));
    for (size_t i = 0; i < outputs.size() && !substitutes.empty(); ++i) {
      redirect(edited, outputs[i], substitutes[std::min(i, substitutes.size() - 1)]);
    }
    return true;
  };
  std::vector<Edit> edits{[remove](Program& edited) { return remove(edited, {}); }};
  if (instruction->outputs.empty()) {
    return edits;
  }
  const std::set<Register> inputs(instruction->inputs.begin(), instruction->inputs.end());
  for (const Register input : inputs) {
    edits.emplace_back([remove, input](Program& edited) { return remove(edited, {input}); });
  }
  if (inputs.size() > 1) {
    edits.emplace_back(
        [remove, all = instruction->inputs](Program& edited) { return remove(edited, all); });
  }
  return edits;
}

std::vector<Edit> unwrappings(const Program& program, size_t at) {
  const auto* instruction = instruction_at(program, at);
  if (instruction == nullptr || instruction->blocks.empty()) {
    return {};
  }
  std::vector<Edit> edits{[at](Program& edited) {
    const Place place = place_of(edited, at);
    const Instruction unwrapped = place.instruction();
    const auto position = place.list->begin() + static_cast<std::ptrdiff_t>(place.index);
    auto next = place.list->erase(position);
    for (const auto& block : unwrapped.blocks) {
      next = place.list->insert(next, block.body.begin(), block.body.end()) +
             static_cast<std::ptrdiff_t>(block.body.size());
    }
    if (unwrapped.kind == Kind::Sequential) {
      join(edited, unwrapped);
      return true;
    }
    const auto& inner = unwrapped.blocks[0];
    for (size_t i = 0; i < inner.parameters.size(); ++i) {
      redirect(edited, inner.parameters[i], unwrapped.inputs[i]);
    }
    for (size_t i = 0; i < unwrapped.outputs.size(); ++i) {
      // A result may be a parameter.
      const auto parameter =
          std::find(inner.parameters.begin(), inner.parameters.end(), inner.results[i]);
      redirect(edited,
               unwrapped.outputs[i],
               parameter == inner.parameters.end()
                   ? inner.results[i]
                   : unwrapped.inputs[static_cast<size_t>(parameter - inner.parameters.begin())]);
    }
    return true;
  }};
  const auto& block = instruction->blocks[0];
  if (instruction->kind == Kind::Sequential) {
    for (size_t i = 0; i < instruction->blocks.size(); ++i) {
      edits.push_back(change_at(at, [i](Instruction& edited) {
        edited.blocks.erase(edited.blocks.begin() + static_cast<std::ptrdiff_t>(i));
        edited.integer = std::min(edited.integer, static_cast<int64_t>(edited.blocks.size()));
        return !edited.blocks.empty();
      }));
    }
    return edits;
  }
  if (instruction->kind == Kind::Loop) {
    // A loop has a parameter for each result; what it no longer carries starts anew each round.
    for (size_t i = 0; i < block.parameters.size(); ++i) {
      edits.emplace_back([at, i](Program& edited) { return drop_carried(edited, at, i); });
    }
    return edits;
  }
  for (size_t i = 0; i < block.results.size(); ++i) {
    edits.push_back(change_at(at, [i](Instruction& edited) {
      erase_at(edited.blocks[0].results, i);
      erase_at(edited.outputs, i);
      return true;
    }));
  }
  for (size_t i = 0; i < block.parameters.size(); ++i) {
    edits.emplace_back([at, i](Program& edited) { return capture_argument(edited, at, i); });
  }
  return edits;
}

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
                         return std::exchange(edited.options, {}) != RegionOptions{};
                       }),
             set_option(&RegionOptions::use_reentrant, false),
             set_option(&RegionOptions::preserve_rng_state, true),
             set_option(&RegionOptions::early_stop, true),
             set_option(&RegionOptions::determinism_check, 1),
             set_option(&RegionOptions::policy, PolicyKind::None),
             set_option(&RegionOptions::lists_generators, false),
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
