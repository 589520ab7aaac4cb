// The losses of a program, and its backward calls.
#include "fuzz/programs/generator.h"

#include <algorithm>
#include <utility>

namespace reprise::fuzz {

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

}  // namespace reprise::fuzz
