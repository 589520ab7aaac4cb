// The statements that bodies are made of.
#include "fuzz/programs/generator.h"

#include <algorithm>

namespace reprise::fuzz {
namespace {

/// Rows by weight, for every profile the same list.
const std::vector<int>& weighted_rows() {
  static const auto list = [] {
    std::vector<int> rows;
    for (size_t i = 0; i < operators().size(); ++i) {
      const auto& row = operators()[i];
      const int weight = row.has(kNoWeight) ? 0 : row.has(kRare) ? 1 : row.has(kCommon) ? 6 : 3;
      rows.insert(rows.end(), static_cast<size_t>(weight), static_cast<int>(i));
    }
    return rows;
  }();
  return list;
}

}  // namespace

void Generator::assign_outputs(Instruction& instruction, const Operator& row) {
  const bool has_grad = has_grad_mode_ && !row.has(kDetached) &&
                        std::any_of(instruction.inputs.begin(),
                                    instruction.inputs.end(),
                                    [this](Register reg) { return known_.of(reg).has_grad; });
  for (char type : row.output_types()) {
    if (type == 'x') {
      type = known_.of(instruction.inputs[0]).type;
    }
    Register reg = 0;
    if (row.has(kView)) {
      const auto base = known_.of(instruction.inputs[0]);
      reg = known_.add({type,
                        row.has(kDetached) ? false : base.has_grad,
                        row.has(kManyViews) || base.is_one_of_many_views,
                        base.memory});
    } else {
      reg = known_.add_new(type, has_grad || row.name == "new_leaf");
      known_.memory_of(reg).is_saved = row.saves.find('o') != std::string_view::npos;
      known_.memory_of(reg).is_foreign = row.name == "unsafe_chunk";
      known_.memory_of(reg).is_leaf_with_grad = row.name == "new_leaf";
    }
    instruction.outputs.push_back(reg);
    scope_.push_back(reg);
  }
  if (!row.has(kWrites)) {
    return;
  }
  if (has_grad && row.name != "average_") {
    known_.give_grad(instruction.inputs[0]);
  }
}

bool Generator::make_row(Body& body, int index) {
  const auto& row = operators()[static_cast<size_t>(index)];
  if ((profile_.is_complex && !row.has(kComplex)) ||
      (profile_.is_reentrant && row.has(kNotReentrant)) ||
      (row.has(kRisky) && !profile_.is_risky) || (row.has(kNeedsGrad) && !can("hook")) ||
      !can(row.name)) {
    return false;
  }
  Instruction instruction;
  instruction.op = index;
  if (row.has(kExplicit) && explicit_generator_ != kDefaultGenerator) {
    instruction.generator = explicit_generator_;
  } else if (row.has(kExplicit) && program_.generators > 0 && random_.chance(50)) {
    instruction.generator = random_.between(0, program_.generators - 1);
  } else if (row.has(kRandom) && !may_draw_default_) {
    return false;
  }
  if (!choose_inputs(row, instruction.inputs)) {
    return false;
  }
  instruction.number = random_.between(1, 8) / 8.0;
  instruction.integer = random_.between(0, 9);
  for (size_t i = 0; i < instruction.inputs.size(); ++i) {
    const Register reg = instruction.inputs[i];
    if (i > 0 || !row.has(kOverwrites)) {
      known_.note_read(reg);
    }
    if (has_grad_mode_ && row.saves.find(static_cast<char>('0' + i)) != std::string_view::npos) {
      known_.memory_of(reg).is_saved = true;
    }
    uses_.resize(static_cast<size_t>(known_.count()));
    ++uses_[static_cast<size_t>(reg)];
  }
  if (row.has(kWrites)) {
    known_.note_written(instruction.inputs[0]);
  }
  if (row.has(kUpdatesStatistics)) {
    known_.note_written(instruction.inputs[3]);
    known_.note_written(instruction.inputs[4]);
  }
  if (auto* region = known_.innermost()) {
    region->draws = region->draws || row.has(kRandom);
    region->has_matmul = region->has_matmul || row.has(kMatmul);
    region->has_mask = region->has_mask || row.output_types() == "m";
    if (!row.aten.empty() && row.aten.find("_.") == std::string_view::npos) {
      region->kept.emplace_back(row.aten);
    }
  }
  assign_outputs(instruction, row);
  --budget_;
  body.push_back(std::move(instruction));
  return true;
}

bool Generator::make_operator(Body& body) {
  for (int attempt = 0; attempt < 30; ++attempt) {
    if (make_row(body, random_.pick(weighted_rows()))) {
      return true;
    }
  }
  return false;
}

Register Generator::place(Body& body,
                          std::string_view name,
                          std::vector<Register> inputs,
                          double number) {
  Instruction instruction;
  instruction.op = operator_named(name);
  instruction.inputs = std::move(inputs);
  instruction.number = number;
  for (const Register reg : instruction.inputs) {
    known_.note_read(reg);
  }
  assign_outputs(instruction, operators()[static_cast<size_t>(instruction.op)]);
  body.push_back(instruction);
  return instruction.outputs.empty() ? 0 : instruction.outputs[0];
}

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
    if (!may_read(reg)) {
      continue;
    }
    uses_.resize(static_cast<size_t>(known_.count()));
    ++uses_[static_cast<size_t>(reg)];
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
  instruction.options = choose_options(region);
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
  if (list.empty() || profile_.is_reentrant) {
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
  has_grad_mode_ = had_grad_mode && kind != Kind::NoGrad;
  make_statements(block.body, random_.between(1, kind == Kind::NoGrad ? 2 : 4));
  has_grad_mode_ = had_grad_mode;
  std::vector<Register> inner(scope_.begin() + static_cast<std::ptrdiff_t>(outside), scope_.end());
  scope_.resize(outside);
  if (kind == Kind::Autocast) {
    std::erase_if(inner, [this](Register reg) {
      return std::string_view("imn").find(known_.of(reg).type) != std::string_view::npos;
    });
  }
  for (const Register result : inner) {
    block.results.push_back(result);
    instruction.outputs.push_back(known_.add(known_.of(result)));
    scope_.push_back(instruction.outputs.back());
  }
  instruction.blocks.push_back(std::move(block));
  body.push_back(std::move(instruction));
}

void Generator::make_try(Body& body) {
  Instruction instruction;
  instruction.kind = Kind::Try;
  Block block;
  const auto outside = scope_;
  make_statements(block.body, random_.between(1, 3));
  place(block.body, "fail", {});
  scope_ = outside;
  if (random_.chance(60) && block.body.size() > 1) {
    // The exception leaves a region.
    auto& last = block.body[block.body.size() - 2];
    if (last.kind == Kind::Region) {
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
  if (list.empty() || !has_grad_mode_ || profile_.is_reentrant) {
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
  Instruction instruction;
  if (random_.chance(60)) {
    instruction.kind = Kind::Grad;
    instruction.inputs = {loss, start};
    instruction.outputs = {known_.add_new('a', false)};
  } else {
    instruction.kind = Kind::Backward;
    instruction.inputs = {loss};
  }
  body.push_back(instruction);
  scope_ = outside;
  if (!instruction.outputs.empty()) {
    scope_.push_back(instruction.outputs[0]);
  }
}

void Generator::make_statement(Body& body) {
  const bool may_nest = blocks_ < 5;
  const auto roll = static_cast<int>(random_.below(100));
  if (roll < 16 && may_nest && known_.depth() < (can("nested") ? 3 : 1)) {
    make_region(body);
  } else if (roll < 20 && may_nest && can("loop")) {
    make_loop(body);
  } else if (roll < 25 && may_nest && has_grad_mode_) {
    make_surrounded(body, Kind::NoGrad);
  } else if (roll < 29 && may_nest && profile_.has_autocast) {
    make_surrounded(body, Kind::Autocast);
  } else if (roll < 32 && may_nest && profile_.has_threads) {
    make_surrounded(body, Kind::Thread);
  } else if (roll < 34 && may_nest && can("try")) {
    make_try(body);
  } else if (roll < 37 && can("inner_backward")) {
    make_inner_backward(body);
  } else {
    make_operator(body);
  }
}

void Generator::make_statements(Body& body, int count) {
  ++blocks_;
  for (int i = 0; i < count && budget_ > 0; ++i) {
    make_statement(body);
  }
  --blocks_;
}

}  // namespace reprise::fuzz
