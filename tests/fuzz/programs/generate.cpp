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

void Generator::make_losses(Body& body) {
  losses_.clear();
  std::vector<Register> outputs;
  for (auto reg = scope_.rbegin(); reg != scope_.rend(); ++reg) {
    if (known_.of(*reg).has_grad) {
      outputs.push_back(*reg);
    }
  }
  const int count = random_.between(1, 2);
  for (int i = 0; i < count && !outputs.empty(); ++i) {
    Register loss = -1;
    const int terms = random_.between(1, 3);
    for (int j = 0; j < terms && !outputs.empty(); ++j) {
      const size_t index = std::min(random_.below(outputs.size()), random_.below(outputs.size()));
      const Register term = place(body,
                                  profile_.is_complex ? "complex_loss" : "loss",
                                  {outputs[index]},
                                  random_.between(1, 8) / 4.0);
      loss = loss < 0 ? term : place(body, "add", {loss, term});
    }
    losses_.push_back(loss);
  }
}

void Generator::backward(Body& body, std::vector<Register> losses, bool retain) {
  Instruction instruction;
  instruction.kind = Kind::Backward;
  instruction.integer = static_cast<int64_t>(losses.size());
  instruction.inputs = std::move(losses);
  instruction.retain_graph = retain;
  if (!profile_.is_reentrant && can("into") && random_.chance(8)) {
    for (const auto& leaf : program_.leaves) {
      if (leaf.requires_grad && known_.of(leaf.reg).has_grad && random_.chance(50)) {
        instruction.inputs.push_back(leaf.reg);
      }
    }
  }
  body.push_back(std::move(instruction));
}

std::vector<Register> Generator::with_grad() {
  std::vector<Register> found;
  for (const Register reg : scope_) {
    if (known_.of(reg).has_grad && known_.of(reg).type != 's') {
      found.push_back(reg);
    }
  }
  return found;
}

void Generator::grad(Body& body, std::vector<Register> losses, bool create_graph, bool retain) {
  Instruction instruction;
  instruction.kind = Kind::Grad;
  instruction.integer = static_cast<int64_t>(losses.size());
  instruction.inputs = std::move(losses);
  instruction.create_graph = create_graph;
  instruction.retain_graph = retain;
  const auto inputs = with_grad();
  const int count = random_.between(1, 3);
  for (int i = 0; i < count; ++i) {
    const Register by = random_.pick(inputs);
    instruction.inputs.push_back(by);
    instruction.outputs.push_back(known_.add_new(known_.of(by).type, create_graph));
    scope_.push_back(instruction.outputs.back());
  }
  body.push_back(std::move(instruction));
}

void Generator::make_backward(Body& body) {
  if (losses_.empty()) {
    return;
  }
  Body calls;
  const std::vector<Register> last{losses_.back()};
  if (!profile_.is_parallel && !profile_.is_reentrant && can("failing_backward") &&
      random_.chance(4)) {
    // A hook throws in the first backward call.
    place(body, "fail_once", {random_.chance(50) ? last[0] : recent(with_grad())});
    Instruction attempt;
    attempt.kind = Kind::Try;
    attempt.blocks.emplace_back();
    backward(attempt.blocks[0].body, losses_, true);
    body.push_back(std::move(attempt));
  }
  const bool is_simple = profile_.is_reentrant || random_.chance(45);
  if (losses_.size() == 2 && can("twice") && random_.chance(60)) {
    backward(calls, {losses_[0]}, true);
    backward(calls, last, false);
  } else if (is_simple) {
    backward(calls, losses_, false);
  } else if (random_.chance(35) && can("twice")) {
    backward(calls, losses_, true);
    backward(calls, losses_, false);
  } else if (random_.chance(50) && can("grad")) {
    const bool continues = random_.chance(40);
    grad(calls, losses_, false, continues);
    if (continues) {
      backward(calls, last, false);
    }
  } else if (can("grad") && (!profile_.has_threads || wants("thread_order"))) {
    grad(calls, losses_, true, true);
    const Register gradient = calls.back().outputs[0];
    const Register penalty = place(calls, "square_loss", {gradient});
    const Register loss = place(calls, profile_.is_complex ? "complex_loss" : "loss", {penalty});
    // The gradient may be a constant, without a graph of its own.
    backward(calls, {place(calls, "add", {loss, last[0]})}, false);
  } else {
    backward(calls, losses_, false);
  }
  const auto wrap = [&calls](Kind kind) {
    Instruction instruction;
    instruction.kind = kind;
    instruction.blocks.push_back({{}, std::exchange(calls, {}), {}});
    calls.push_back(std::move(instruction));
  };
  if (can("group") && random_.chance(12)) {
    wrap(Kind::Group);
  }
  if (profile_.has_threads && random_.chance(40)) {
    wrap(Kind::Thread);
  }
  body.insert(body.end(), calls.begin(), calls.end());
  known_.forget_graph();
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
