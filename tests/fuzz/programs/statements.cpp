// Operators, and which statement comes next.
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

/// What docs/checkpointing.md lists as not seen.
bool Generator::is_beyond_sight(const Operator& row, const std::vector<Register>& inputs) {
  if (is_below_autograd_ && row.has(kWrites) && known_.of(inputs[0]).has_grad) {
    return true;  // perhaps the output of a region
  }
  if (row.name == "data_add_" && known_.of(inputs[0]).has_grad &&
      known_.is_closed(known_.memory_of(inputs[0]).region)) {
    return true;
  }
  if (known_.depth() == 0) {
    return false;
  }
  const auto has_grad = [this](Register reg) { return known_.of(reg).has_grad; };
  const bool gives_history = profile_.is_reentrant && row.has(kWrites) && has_grad_mode_ &&
                             known_.memory_of(inputs[0]).region != known_.region_number() &&
                             std::any_of(inputs.begin(), inputs.end(), has_grad);
  return gives_history || row.name == "zero_gradient";
}

bool Generator::make_row(Body& body, int index) {
  const auto& row = operators()[static_cast<size_t>(index)];
  if ((profile_.is_complex && !row.has(kComplex)) ||
      (profile_.is_reentrant && row.has(kNotReentrant)) ||
      (row.has(kRisky) && !profile_.is_risky) ||
      (row.has(kNeedsGrad) && (!can("hook") || !may_hook_)) || !can(row.name)) {
    return false;
  }
  if (is_on_thread_of_region_ && !wants("thread_effects") &&
      row.has(kRandom | kWrites | kUpdatesStatistics | kNeedsGrad | kEffectful)) {
    return false;
  }
  // Its region lists all generators, which other threads must not use then.
  if (row.has(kDirect) && explicit_generator_ != kDefaultGenerator) {
    return false;
  }
  Instruction instruction;
  instruction.op = index;
  if (row.has(kExplicit) && explicit_generator_ != kDefaultGenerator) {
    instruction.generator = explicit_generator_;
  } else if (row.has(kExplicit) && program_.generators > 0 &&
             (row.has(kAlwaysExplicit) || random_.chance(50))) {
    instruction.generator = random_.between(0, program_.generators - 1);
  } else if (row.has(kAlwaysExplicit) || (row.has(kRandom) && !may_draw_default_)) {
    return false;
  }
  if (!choose_inputs(row, instruction.inputs)) {
    return false;
  }
  if (is_beyond_sight(row, instruction.inputs)) {
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
    region->draws_directly = region->draws_directly || row.has(kDirect);
    // A policy sees the operators of the region's own thread.
    region->has_matmul = region->has_matmul || (row.has(kMatmul) && !is_on_thread_of_region_);
    region->is_unhashable = region->is_unhashable || row.has(kUnhashable);
    region->has_mask = region->has_mask || row.output_types() == "m";
    if (!row.aten.empty() && row.aten.find("_.") == std::string_view::npos &&
        !is_on_thread_of_region_) {
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

void Generator::make_statement(Body& body) {
  if (blocks_ >= 5) {
    make_operator(body);
    return;
  }
  // Per mille; the rest are operators.
  auto roll = static_cast<int>(random_.below(1000));
  const auto is = [&roll](int share, bool is_possible) {
    roll -= share;
    return roll < 0 && roll >= -share && is_possible;
  };
  if (is(160, known_.depth() < (can("nested") ? 3 : 1))) {
    make_region(body);
  } else if (is(40, can("loop"))) {
    make_loop(body);
  } else if (is(15, can("sequential") && known_.depth() < 2)) {
    make_sequential(body);
  } else if (is(45, has_grad_mode_)) {
    make_surrounded(body, Kind::NoGrad);
  } else if (is(10, !has_grad_mode_ && can("enable"))) {
    make_surrounded(body, Kind::EnableGrad);
  } else if (is(10, can("inference"))) {
    make_surrounded(body, Kind::Inference);
  } else if (is(10, can("below") && profile_.is_risky)) {
    make_surrounded(body, Kind::BelowAutograd);
  } else if (is(50, profile_.has_autocast)) {
    make_surrounded(body, Kind::Autocast);
  } else if (is(50, profile_.has_threads)) {
    make_surrounded(body, Kind::Thread);
  } else if (is(20, can("try"))) {
    make_try(body);
  } else if (is(30, may_call_backward_)) {
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
