#include "fuzz/programs/types.h"

#include "fuzz/programs/operators.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::fuzz {
namespace {

/// Types of registers, one letter each.
using Types = std::map<Register, char>;

std::optional<std::string> types_of(const std::vector<Register>& list, const Types& types) {
  std::string found;
  for (const Register reg : list) {
    const auto type = types.find(reg);
    if (type == types.end()) {
      return std::nullopt;
    }
    found += type->second;
  }
  return found;
}

bool assign(const std::vector<Register>& list, std::string_view assigned, Types& types) {
  if (list.size() != assigned.size()) {
    return false;
  }
  for (size_t i = 0; i < list.size(); ++i) {
    types[list[i]] = assigned[i];
  }
  return true;
}

bool check_operator(const Instruction& instruction, const std::string& inputs, Types& types) {
  constexpr std::string_view kFloating = "awvshtb";
  const auto& row = operators()[static_cast<size_t>(instruction.op)];
  const auto wanted = row.input_types();
  if (inputs.size() != wanted.size()) {
    return false;
  }
  char any = 'x';
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (wanted[i] != 'x' && wanted[i] != inputs[i]) {
      return false;
    }
    if (wanted[i] == 'x') {
      if (kFloating.find(inputs[i]) == std::string_view::npos || (any != 'x' && any != inputs[i])) {
        return false;
      }
      any = inputs[i];
    }
  }
  std::string outputs(row.output_types());
  for (auto& type : outputs) {
    type = type == 'x' ? any : type;
  }
  return assign(instruction.outputs, outputs, types);
}

bool check(const std::vector<Instruction>& body, Types& types);

/// Types of the block's results, if it is well typed.
std::optional<std::string> check_block(const Block& block,
                                       const std::string& arguments,
                                       Types types) {
  if (!assign(block.parameters, arguments, types) || !check(block.body, types)) {
    return std::nullopt;
  }
  return types_of(block.results, types);
}

bool check_blocks(const Instruction& instruction, const std::string& inputs, Types& types) {
  if (instruction.kind == Kind::Sequential) {
    std::string value = inputs;
    for (const auto& block : instruction.blocks) {
      const auto result = check_block(block, value, types);
      if (!result || result->size() != 1) {
        return false;
      }
      value = *result;
    }
    return assign(instruction.outputs, value, types);
  }
  for (const auto& block : instruction.blocks) {
    const auto results = check_block(block, block.parameters.empty() ? "" : inputs, types);
    if (!results || (instruction.kind == Kind::Loop && *results != inputs) ||
        !assign(instruction.outputs, *results, types)) {
      return false;
    }
  }
  return true;
}

bool check(const std::vector<Instruction>& body, Types& types) {
  for (const auto& instruction : body) {
    const auto inputs = types_of(instruction.inputs, types);
    if (!inputs) {
      return false;
    }
    bool is_right = true;
    switch (instruction.kind) {
      case Kind::Operator:
        is_right = check_operator(instruction, *inputs, types);
        break;
      case Kind::Backward:
      case Kind::Grad: {
        const auto losses = static_cast<size_t>(instruction.integer);
        is_right = losses <= inputs->size() && inputs->find_first_not_of('s') >= losses &&
                   (instruction.kind == Kind::Backward ||
                    assign(instruction.outputs, inputs->substr(losses), types));
        break;
      }
      default:
        is_right = check_blocks(instruction, *inputs, types);
    }
    if (!is_right) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool is_well_typed(const Program& program) {
  Types types;
  for (const auto& leaf : program.leaves) {
    types[leaf.reg] = leaf.type;
  }
  return check(program.body, types);
}

}  // namespace reprise::fuzz
