// Instructions of a program by number, and what edits do to registers.
#pragma once

#include "fuzz/programs/edits.h"
#include "fuzz/programs/program.h"

#include <algorithm>
#include <vector>

namespace reprise::fuzz {

/// Where an instruction stands.
struct Place {
  std::vector<Instruction>* list = nullptr;
  size_t index = 0;

  Instruction& instruction() const { return (*list)[index]; }
};

inline bool find(std::vector<Instruction>& list, size_t& at, Place& place) {
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

inline Place place_of(Program& program, size_t at) {
  Place place;
  find(program.body, at, place);
  return place;
}

inline const Instruction* instruction_at(const Program& program, size_t at) {
  const Instruction* found = nullptr;
  for_each_instruction(program.body, [&](const Instruction& instruction) {
    if (at-- == 0) {
      found = &instruction;
    }
  });
  return found;
}

/// Every reader of `from` reads `to`.
inline void redirect(Program& program, Register from, Register to) {
  for_each_instruction(program.body, [from, to](Instruction& instruction) {
    std::replace(instruction.inputs.begin(), instruction.inputs.end(), from, to);
    for (auto& block : instruction.blocks) {
      std::replace(block.results.begin(), block.results.end(), from, to);
    }
  });
}

inline void erase_at(std::vector<Register>& list, size_t index) {
  if (index < list.size()) {
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(index));
  }
}

/// An edit of the instruction number `at`.
template <class Change>
Edit change_at(size_t at, const Change& change) {
  return [at, change](Program& program) {
    const Place place = place_of(program, at);
    return place.list != nullptr && change(place.instruction());
  };
}

}  // namespace reprise::fuzz
