// Which registers an instruction reads and writes, and which options a region gets.
#include "fuzz/programs/generator.h"

#include <algorithm>

namespace reprise::fuzz {

bool Generator::can(std::string_view feature) const {
  return std::find(options_.without.begin(), options_.without.end(), feature) ==
         options_.without.end();
}

bool Generator::wants(std::string_view feature) const {
  return std::find(options_.with.begin(), options_.with.end(), feature) != options_.with.end();
}

std::vector<Register> Generator::candidates(char type) {
  constexpr std::string_view kFloating = "awvshtb";
  std::vector<Register> found;
  for (const Register reg : scope_) {
    const char has = known_.of(reg).type;
    if ((type == 'x' ? kFloating.find(has) != std::string_view::npos : has == type)) {
      found.push_back(reg);
    }
  }
  return found;
}

bool Generator::is_parameter(Register reg) const {
  return std::any_of(program_.leaves.begin(), program_.leaves.end(), [reg](const Leaf& leaf) {
    return leaf.reg == reg && leaf.requires_grad;
  });
}

/// Prefers what was made last and has a gradient, so that programs become deep.
Register Generator::recent(const std::vector<Register>& list) {
  if (random_.chance(55)) {
    for (auto reg = list.rbegin(); reg != list.rend(); ++reg) {
      if (known_.of(*reg).has_grad && random_.chance(60)) {
        return *reg;
      }
    }
  }
  return random_.pick(list);
}

bool Generator::may_write(Register target, bool writes_gradient) {
  const auto& known = known_.of(target);
  const auto& memory = known_.memory_of(target);
  if (known.is_one_of_many_views || memory.is_foreign) {
    return false;
  }
  if (memory.is_saved || (memory.is_leaf_with_grad && has_grad_mode_)) {
    return false;  // an error without regions, too
  }
  if (writes_gradient && memory.is_leaf && loops_ > 0) {
    return false;  // in the next round it would not be a leaf
  }
  const bool is_risk =
      memory.is_leaf_with_grad || memory.is_read_by_region ||
      ((writes_gradient || known.has_grad) && memory.region != known_.region_number()) ||
      (known.has_grad && !has_grad_mode_);
  return !is_risk || (profile_.is_risky && random_.chance(50));
}

bool Generator::choose_inputs(const Operator& row, std::vector<Register>& inputs) {
  char any = 'x';
  for (const char wanted : row.input_types()) {
    const auto list = candidates(wanted == 'x' ? any : wanted);
    if (list.empty()) {
      return false;
    }
    const Register reg = recent(list);
    if (wanted == 'x') {
      any = known_.of(reg).type;
    }
    inputs.push_back(reg);
  }
  const bool writes_gradient =
      has_grad_mode_ && std::any_of(inputs.begin(), inputs.end(), [this](Register reg) {
        return known_.of(reg).has_grad;
      });
  if (row.has(kWrites)) {
    if (!may_write(inputs[0], writes_gradient && row.name != "average_")) {
      return false;
    }
    // Not through a tensor that the target overlaps.
    for (size_t i = 1; i < inputs.size(); ++i) {
      if (known_.of(inputs[i]).memory == known_.of(inputs[0]).memory) {
        return false;
      }
    }
  }
  if (row.has(kView) && !has_grad_mode_ && known_.of(inputs[0]).has_grad) {
    return false;  // requires grad without a history
  }
  if (row.has(kReadsStatistics) &&
      (known_.of(inputs[3]).has_grad || known_.of(inputs[4]).has_grad)) {
    return false;
  }
  if (row.has(kUpdatesStatistics)) {
    for (const Register reg : {inputs[3], inputs[4]}) {
      if (known_.of(reg).has_grad || known_.memory_of(reg).region != 0 || inputs[3] == inputs[4] ||
          !may_write(reg, false)) {
        return false;
      }
    }
  }
  // A reentrant region's forward has no graph to hook into, and its backward hands gradients to all
  // arguments, undefined ones too.
  if (row.name == "count_node" && (known_.memory_of(inputs[0]).region != known_.region_number() ||
                                   known_.memory_of(inputs[0]).is_foreign)) {
    return false;  // beyond a region's sight
  }
  if (row.has(kLeafOnly) && (!known_.memory_of(inputs[0]).is_leaf_with_grad ||
                             !known_.memory_of(inputs[0]).is_leaf || !is_parameter(inputs[0]))) {
    return false;
  }
  return !row.has(kNeedsGrad) || (known_.of(inputs[0]).has_grad && !profile_.is_reentrant);
}

std::vector<Register> Generator::choose_results(size_t first_new, int most) {
  std::vector<Register> results;
  const int count = random_.between(1, most);
  for (int i = 0; i < count; ++i) {
    const bool is_new = scope_.size() > first_new && random_.chance(90);
    const size_t first = is_new ? first_new : 0;
    const Register reg = scope_[first + random_.below(scope_.size() - first)];
    // The newest is the one that most depends on.
    results.push_back(is_new && i == 0 ? scope_.back() : reg);
  }
  return results;
}

RegionOptions Generator::choose_options(const OpenRegion& region, bool is_reentrant) {
  RegionOptions options;
  options.lists_generators = region.draws_directly;
  if (is_reentrant) {
    options.use_reentrant = true;  // most other options would have no effect
    return options;
  }
  options.early_stop = !random_.chance(25);
  options.preserve_rng_state = region.draws || !random_.chance(10);
  options.determinism_check =
      can("values") && !region.is_unhashable && random_.chance(15) ? 2 : random_.between(0, 1);
  if (!can("policy") || random_.chance(50)) {
    return options;
  }
  switch (random_.below(5)) {
    case 0:
      options.policy = region.has_matmul ? PolicyKind::SaveMatmuls : PolicyKind::Full;
      options.every = random_.between(1, 3);
      break;
    case 1:
      if (!region.kept.empty()) {
        options.policy = PolicyKind::SaveOps;
        options.op = random_.pick(region.kept);
      }
      break;
    case 2:
      options.policy = region.has_mask ? PolicyKind::CompressMasks : PolicyKind::None;
      break;
    default:
      options.policy = PolicyKind::KeepByHash;
      options.every = random_.between(0, 9);
  }
  return options;
}

}  // namespace reprise::fuzz
