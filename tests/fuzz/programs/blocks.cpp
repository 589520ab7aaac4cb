// Statements that hold a body of their own: regions, loops, scopes.
#include "fuzz/programs/generator.h"

#include <algorithm>

namespace reprise::fuzz {

void Generator::make_region(Body& body) {
  Instruction instruction;
  instruction.kind = Kind::Region;
  Block block;
  const size_t outside = scope_.size();
  const auto floating = candidates('x');
  known_.open_region();
  const int arguments = floating.empty() ? 0 : random_.between(random_.chance(90) ? 1 : 0, 3);
  for (int i = 0; i < arguments; ++i) {
    Register reg = recent(floating);
    if (i > 0 && random_.chance(20)) {
      reg = random_.pick(scope_);
    }
    if (is_written_by_hooks(reg)) {
      continue;
    }
    instruction.inputs.push_back(reg);
    known_.note_read(reg);
    block.parameters.push_back(known_.add(known_.of(reg)));
  }
  // Reentrant regions may capture leaves alone.
  const auto all = scope_;
  std::erase_if(scope_, [this](Register reg) {
    return !known_.memory_of(reg).is_leaf && (profile_.is_reentrant || !random_.chance(40));
  });
  scope_.insert(scope_.end(), block.parameters.begin(), block.parameters.end());
  const size_t inside = scope_.size();
  make_statements(block.body, random_.between(1, 5));
  block.results = choose_results(inside, 3);
  const auto region = known_.close_region();
  const bool has_gradient = std::any_of(instruction.inputs.begin(),
                                        instruction.inputs.end(),
                                        [this](Register reg) { return known_.of(reg).has_grad; });
  instruction.options =
      choose_options(region, profile_.is_reentrant && has_gradient && random_.chance(80));
  scope_ = all;
  scope_.resize(outside);
  for (const Register result : block.results) {
    instruction.outputs.push_back(known_.add(known_.of(result)));
    scope_.push_back(instruction.outputs.back());
  }
  instruction.blocks.push_back(std::move(block));
  body.push_back(std::move(instruction));
}

void Generator::make_loop(Body& body) {
  const auto list = candidates('a');
  if (list.empty()) {
    return;
  }
  Instruction instruction;
  instruction.kind = Kind::Loop;
  instruction.integer = random_.between(2, 3);
  const Register start = recent(list);
  instruction.inputs = {start};
  known_.note_read(start);
  Block block;
  const Register parameter = known_.add_new('a', known_.of(start).has_grad);
  known_.memory_of(parameter).is_foreign = true;
  block.parameters = {parameter};
  const auto outside = scope_;
  scope_.push_back(parameter);
  const size_t inside = scope_.size();
  ++loops_;
  make_statements(block.body, random_.between(1, 3));
  --loops_;
  Register result = parameter;
  for (size_t i = inside; i < scope_.size(); ++i) {
    const auto& known = known_.of(scope_[i]);
    result = known.type == 'a' && known.has_grad ? scope_[i] : result;
  }
  block.results = {result};
  scope_ = outside;
  instruction.outputs = {known_.add(known_.of(result))};
  scope_.push_back(instruction.outputs[0]);
  instruction.blocks.push_back(std::move(block));
  body.push_back(std::move(instruction));
}

void Generator::make_surrounded(Body& body, Kind kind) {
  Instruction instruction;
  instruction.kind = kind;
  Block block;
  const size_t outside = scope_.size();
  const bool had_grad_mode = has_grad_mode_;
  const bool was_on_thread = is_on_thread_of_region_;
  is_on_thread_of_region_ = was_on_thread || (kind == Kind::Thread && known_.depth() > 0);
  const bool was_below_autograd =
      std::exchange(is_below_autograd_, is_below_autograd_ || kind == Kind::BelowAutograd);
  const bool is_plain =
      kind == Kind::NoGrad || kind == Kind::Inference || kind == Kind::BelowAutograd;
  has_grad_mode_ = (had_grad_mode && !is_plain) || kind == Kind::EnableGrad;
  make_statements(block.body, random_.between(1, is_plain ? 2 : 4));
  has_grad_mode_ = had_grad_mode;
  is_on_thread_of_region_ = was_on_thread;
  is_below_autograd_ = was_below_autograd;
  std::vector<Register> inner(scope_.begin() + static_cast<std::ptrdiff_t>(outside), scope_.end());
  scope_.resize(outside);
  if (kind == Kind::Autocast) {  // which converts what leaves it
    std::erase_if(inner, [this](Register reg) {
      return std::string_view("im").find(known_.of(reg).type) != std::string_view::npos;
    });
  }
  for (const Register result : inner) {
    block.results.push_back(result);
    instruction.outputs.push_back(kind == Kind::Inference
                                      ? known_.add_new(known_.of(result).type, false)
                                      : known_.add(known_.of(result)));
    scope_.push_back(instruction.outputs.back());
  }
  instruction.blocks.push_back(std::move(block));
  body.push_back(std::move(instruction));
}

void Generator::make_sequential(Body& body) {
  const auto list = candidates('a');
  if (list.empty() || profile_.is_reentrant) {
    return;
  }
  Instruction instruction;
  instruction.kind = Kind::Sequential;
  Register value = recent(list);
  instruction.inputs = {value};
  const int count = random_.between(2, 4);
  instruction.integer = random_.between(1, count);
  const auto outside = scope_;
  for (int i = 0; i < count; ++i) {
    known_.open_region();
    Block block;
    known_.note_read(value);
    block.parameters = {known_.add(known_.of(value))};
    scope_ = outside;
    scope_.push_back(block.parameters[0]);
    const size_t inside = scope_.size();
    make_statements(block.body, random_.between(1, 2));
    value = block.parameters[0];
    for (size_t j = inside; j < scope_.size(); ++j) {
      value = known_.of(scope_[j]).type == 'a' ? scope_[j] : value;
    }
    block.results = {value};
    instruction.blocks.push_back(std::move(block));
    const auto region = known_.close_region();
    instruction.options.lists_generators =
        instruction.options.lists_generators || region.draws_directly;
  }
  instruction.options.early_stop = !random_.chance(25);
  scope_ = outside;
  instruction.outputs = {known_.add(known_.of(value))};
  scope_.push_back(instruction.outputs[0]);
  body.push_back(std::move(instruction));
}

void Generator::make_try(Body& body) {
  Instruction instruction;
  instruction.kind = Kind::Try;
  Block block;
  const auto outside = scope_;
  make_statements(block.body, random_.between(1, 3));
  const auto list = candidates('a');
  if (random_.chance(60) || list.empty()) {
    place(block.body, "fail", {});
  } else {
    place(block.body, "fail_in_operator", {random_.pick(list)});
  }
  scope_ = outside;
  if (random_.chance(60) && block.body.size() > 1) {
    // The exception leaves a region.
    auto& last = block.body[block.body.size() - 2];
    if (last.kind == Kind::Region && block.body.back().inputs.empty()) {
      last.blocks[0].body.push_back(block.body.back());
      block.body.pop_back();
    }
  }
  instruction.blocks.push_back(std::move(block));
  body.push_back(std::move(instruction));
}

/// A backward call over a graph of its own, in the middle of the program or of a region.
void Generator::make_inner_backward(Body& body) {
  const auto list = candidates('a');
  const bool is_grad = random_.chance(60);
  if (list.empty() || !has_grad_mode_ || profile_.is_reentrant ||
      !can(is_grad ? "inner_grad" : "inner_backward") ||
      (is_on_thread_of_region_ && !wants("thread_effects"))) {
    return;
  }
  const Register start = place(body, "new_leaf", {recent(list)});
  const auto outside = scope_;
  // Only what is detached may be below it: the graphs of others are not ours to free.
  std::erase_if(scope_, [&](Register reg) {
    return reg != start && known_.of(reg).has_grad && !known_.memory_of(reg).is_leaf_with_grad;
  });
  const size_t inside = scope_.size();
  for (int i = 0; i < 3; ++i) {
    make_operator(body);
  }
  Register end = start;
  for (size_t i = inside; i < scope_.size(); ++i) {
    end = known_.of(scope_[i]).has_grad ? scope_[i] : end;
  }
  const Register loss = place(body, profile_.is_complex ? "complex_loss" : "loss", {end});
  if (auto* region = known_.innermost()) {
    region->draws = true;  // hooks of what is below it may
  }
  Instruction instruction;
  if (is_grad) {
    instruction.kind = Kind::Grad;
    instruction.inputs = {loss, start};
    instruction.outputs = {known_.add_new('a', false)};
  } else {
    instruction.kind = Kind::Backward;
    instruction.integer = 1;
    instruction.inputs = {loss};
  }
  body.push_back(instruction);
  scope_ = outside;
  if (!instruction.outputs.empty()) {
    scope_.push_back(instruction.outputs[0]);
  }
}

}  // namespace reprise::fuzz
