// Edits that make a program shorter: instructions are deleted, blocks replaced by their bodies.
#include "fuzz/programs/edits.h"

#include "fuzz/programs/places.h"

#include <algorithm>
#include <set>

namespace reprise::fuzz {
namespace {

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

}  // namespace reprise::fuzz
