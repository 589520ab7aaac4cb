#include "fuzz/programs/program.h"

#include <set>

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

size_t instruction_count(const Program& program) {
  size_t count = 0;
  for_each_instruction(program.body, [&count](const Instruction&) { ++count; });
  return count;
}

}  // namespace reprise::fuzz
