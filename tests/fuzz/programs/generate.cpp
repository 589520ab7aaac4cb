// A program around its statements: leaves, losses, backward calls.
#include "fuzz/programs/generate.h"

#include "fuzz/programs/generator.h"

#include <algorithm>
#include <utility>

namespace reprise::fuzz {

Generator::Generator(uint64_t seed, const GenerateOptions& options)
    : random_(seed), options_(options) {
  program_.seed = seed;
}

void Generator::draw_profile() {
  const auto draw = [this](std::string_view feature, int percent) {
    return random_.chance(percent) && can(feature);
  };
  profile_.is_risky = draw("risk", 12);
  profile_.is_reentrant = draw("reentrant", 7);
  profile_.is_complex = !profile_.is_reentrant && draw("complex", 5);
  profile_.has_autocast = !profile_.is_complex && !profile_.is_reentrant && draw("autocast", 8);
  profile_.has_threads = draw("thread", 6);
  profile_.has_steps = !profile_.is_reentrant && draw("steps", 10);
  profile_.is_parallel = !profile_.is_reentrant && draw("parallel", 3);
  profile_.is_risky = profile_.is_risky && !profile_.is_parallel;
  profile_.has_steps = profile_.has_steps && !profile_.is_parallel;
  program_.rows = random_.between(2, 4);
  program_.columns = 2 * random_.between(1, 3);
  program_.dtype = profile_.is_complex                            ? c10::kComplexFloat
                   : !profile_.has_autocast && draw("double", 15) ? c10::kDouble
                                                                  : c10::kFloat;
  program_.generators = can("explicit") ? random_.between(0, 2) : 0;
}

void Generator::add_leaves(char type, bool requires_grad, int count) {
  for (int i = 0; i < count; ++i) {
    const Register reg = known_.add_new(type, requires_grad);
    auto& memory = known_.memory_of(reg);
    memory.is_leaf = true;
    memory.is_leaf_with_grad = requires_grad;
    program_.leaves.push_back({reg, type, requires_grad});
    scope_.push_back(reg);
  }
}

void Generator::make_leaves(int explicit_generator) {
  add_leaves('i', false, 1);
  add_leaves('n', false, 1);
  add_leaves('g', false, 1);
  add_leaves('v', false, 2);
  add_leaves('a', false, 1);
  add_leaves('w', true, 2);
  add_leaves('v', true, 2);
  add_leaves('a', true, 2);
  explicit_generator_ = explicit_generator;
}

void Generator::make_model(Body& body) {
  make_statements(body, random_.between(2, 5));
  make_region(body);
  make_statements(body, random_.between(0, 3));
}

void Generator::make_parallel(Body& body) {
  Instruction instruction;
  instruction.kind = Kind::Parallel;
  program_.generators = 2;
  may_draw_default_ = false;
  // Parameters that both threads use: one backward call of each adds to their gradients. More would
  // be summed in an order that depends on time.
  const bool is_shared = random_.chance(50);
  if (is_shared) {
    add_leaves('w', true, 1);
    add_leaves('v', true, 1);
    may_hook_ = false;
    may_call_backward_ = false;
  }
  const auto shared = scope_;
  for (int i = 0; i < 2; ++i) {
    scope_ = shared;
    budget_ = 25;
    make_leaves(i);
    Block block;
    make_model(block.body);
    make_losses(block.body);
    if (is_shared) {
      backward(block.body, losses_, false);
    } else {
      make_backward(block.body);
    }
    instruction.blocks.push_back(std::move(block));
  }
  body.push_back(std::move(instruction));
}

Program Generator::make() {
  draw_profile();
  if (profile_.is_parallel) {
    make_parallel(program_.body);
  } else if (profile_.has_steps) {
    make_leaves(kDefaultGenerator);
    Instruction steps;
    steps.kind = Kind::Loop;
    steps.integer = 2;
    const Register total = place(program_.body, "zeros", {});
    Block block;
    block.parameters = {known_.add_new('a', false)};
    known_.memory_of(block.parameters[0]).is_foreign = true;
    ++loops_;
    make_model(block.body);
    make_losses(block.body);
    make_backward(block.body);
    --loops_;
    for (const auto& leaf : program_.leaves) {
      if (leaf.requires_grad) {
        place(block.body, "sgd_step", {leaf.reg});
      }
    }
    const Register loss = losses_.empty() ? place(block.body, "zeros", {}) : losses_[0];
    const Register seen = place(block.body, "detach", {loss});
    block.results = {place(block.body, "add_scalar", {block.parameters[0], seen})};
    steps.inputs = {total};
    steps.outputs = {known_.add_new('a', false)};
    steps.blocks.push_back(std::move(block));
    program_.body.push_back(std::move(steps));
  } else {
    make_leaves(kDefaultGenerator);
    make_model(program_.body);
    make_losses(program_.body);
    if (random_.chance(10)) {
      make_surrounded(program_.body, Kind::NoGrad);
    }
    make_backward(program_.body);
  }
  program_.registers = known_.count();
  return std::move(program_);
}

Program generate(uint64_t seed, const GenerateOptions& options) {
  return Generator(seed, options).make();
}

}  // namespace reprise::fuzz
