#include "fuzz/programs/program.h"

#include <algorithm>
#include <set>
#include <utility>

namespace reprise::fuzz {
namespace {

void collect(const Block& block, std::set<Register>& read, std::set<Register>& assigned) {
  assigned.insert(block.parameters.begin(), block.parameters.end());
  read.insert(block.results.begin(), block.results.end());
  for (const auto& instruction : block.body) {
    read.insert(instruction.inputs.begin(), instruction.inputs.end());
    assigned.insert(instruction.outputs.begin(), instruction.outputs.end());
    for (const auto& inner : instruction.blocks) {
      collect(inner, read, assigned);
    }
  }
}

}  // namespace

std::vector<Register> captures(const Block& block) {
  std::set<Register> read;
  std::set<Register> assigned;
  collect(block, read, assigned);
  std::vector<Register> captured;
  for (const Register reg : read) {
    if (!assigned.contains(reg)) {
      captured.push_back(reg);
    }
  }
  return captured;
}

namespace {

bool is_closed(const std::vector<Instruction>& body, std::set<Register>& assigned) {
  const auto are_assigned = [&assigned](const std::vector<Register>& list) {
    return std::all_of(
        list.begin(), list.end(), [&assigned](Register reg) { return assigned.contains(reg); });
  };
  for (const auto& instruction : body) {
    if (!are_assigned(instruction.inputs)) {
      return false;
    }
    for (const auto& block : instruction.blocks) {
      auto inside = assigned;
      inside.insert(block.parameters.begin(), block.parameters.end());
      if (!is_closed(block.body, inside)) {
        return false;
      }
      std::swap(assigned, inside);
      const bool has_results = are_assigned(block.results);
      std::swap(assigned, inside);
      if (!has_results) {
        return false;
      }
    }
    assigned.insert(instruction.outputs.begin(), instruction.outputs.end());
  }
  return true;
}

}  // namespace

bool is_closed(const Program& program) {
  std::set<Register> assigned;
  for (const auto& leaf : program.leaves) {
    assigned.insert(leaf.reg);
  }
  return is_closed(program.body, assigned);
}

size_t instruction_count(const Program& program) {
  size_t count = 0;
  for_each_instruction(program.body, [&count](const Instruction&) { ++count; });
  return count;
}

}  // namespace reprise::fuzz
