#include "plan/decisions_guard.h"

#include "checkpoint/ops/looking_policy.h"
#include "plan/cost/joined_regions.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

namespace reprise::planning {
namespace {

std::string display(std::string_view name, std::string_view overload) {
  return overload.empty() ? std::string(name) : c10::str(name, ".", overload);
}

class DecidedPolicy final : public detail::LookingPolicy {
 public:
  DecidedPolicy(std::vector<OpDecision> ops, Matching matching)
      : ops_(std::move(ops)), matching_(matching) {
    for (const auto& op : ops_) {
      auto& calls = calls_[{op.name, op.overload}];
      calls.decisions.resize(std::max(calls.decisions.size(), op.call_index + 1),
                             Decision::Recompute);
      TORCH_CHECK(calls.decisions[op.call_index] == Decision::Recompute,
                  "[plan] call #",
                  op.call_index,
                  " of ",
                  display(op.name, op.overload),
                  " is decided about twice in one region.");
      calls.decisions[op.call_index] = op.decision;
      calls.kept += op.decision == Decision::Recompute ? 0 : 1;
    }
  }

  Decision decide(const OpContext& op) const override {
    const auto found = calls_.find({op.name, op.overload});
    return found != calls_.end() && op.call_index < found->second.decisions.size()
               ? found->second.decisions[op.call_index]
               : Decision::Recompute;
  }

  void verify(const std::vector<KeptOp>& kept) const override {
    if (matching_ == Matching::ByName) {
      return;
    }
    std::map<std::pair<std::string_view, std::string_view>, size_t> found;
    for (const auto& op : kept) {
      found[{op.name, op.overload}] = op.kept;
    }
    for (const auto& [op, calls] : calls_) {
      TORCH_CHECK(found[op] == calls.kept,
                  "[plan] ",
                  calls.kept,
                  " results of ",
                  display(op.first, op.second),
                  " were planned to be kept in a region that had ",
                  found[op],
                  " of these calls. The step is not the one that was planned: plan again.");
    }
  }

  std::string describe() const override {
    return c10::str("plan(", ops_.size(), ops_.size() == 1 ? " operator)" : " operators)");
  }

 private:
  struct Calls {
    std::vector<Decision> decisions;  // by call
    size_t kept = 0;
  };
  const std::vector<OpDecision> ops_;  // owns the names that the keys refer to
  const Matching matching_;
  std::map<std::pair<std::string_view, std::string_view>, Calls> calls_;
};

void check_decision(const RegionDecision& decision) {
  TORCH_CHECK(!decision.is_plain || decision.ops.empty(),
              "[plan] region \"",
              decision.name,
              "\" is planned to run plainly and to keep ",
              decision.ops.size(),
              " results: a plain run keeps all that autograd needs. Choose one of the two.");
  TORCH_CHECK(!decision.is_plain || !decision.offload_inputs,
              "[plan] region \"",
              decision.name,
              "\" is planned to run plainly and to offload its inputs, which only a region can. "
              "Choose one of the two.");
  const bool compresses =
      std::any_of(decision.ops.begin(), decision.ops.end(), [](const OpDecision& op) {
        return op.decision == Decision::Compress;
      });
  TORCH_CHECK(!decision.allow_lossy || compresses,
              "[plan] region \"",
              decision.name,
              "\" is planned with allow_lossy, but compresses nothing. Leave it off.");
}

}  // namespace

std::shared_ptr<const Policy> policy_of(std::vector<OpDecision> ops) {
  return std::make_shared<DecidedPolicy>(std::move(ops), Matching::InOrder);
}

StepDecisions step_decisions(std::vector<RegionDecision> decisions, Matching matching) {
  check_joined(decisions);
  std::vector<DecidedRegion> regions;
  for (auto& decision : decisions) {
    check_decision(decision);
    auto policy =
        decision.ops.empty() ? nullptr : std::make_shared<DecidedPolicy>(decision.ops, matching);
    regions.push_back({std::move(decision), std::move(policy)});
  }
  return std::make_shared<const std::vector<DecidedRegion>>(std::move(regions));
}

DecisionsGuard::DecisionsGuard(StepDecisions step, Matching matching)
    : step_(std::move(step)), matching_(matching), listening_(check_), in_force_(this) {}

DecisionsGuard::~DecisionsGuard() = default;

std::string DecisionsGuard::names() const {
  std::string names;
  for (const auto& region : *step_) {
    names += (names.empty() ? "\"" : ", \"") + region.decision.name + "\"";
  }
  return names;
}

const DecidedRegion* DecisionsGuard::find(const std::string& name) {
  size_t& next = searched_[name];
  while (next < step_->size() && (*step_)[next].decision.name != name) {
    ++next;
  }
  return next < step_->size() ? &(*step_)[next++] : nullptr;
}

const DecidedRegion& DecisionsGuard::enter(const CheckpointOptions& asked) {
  TORCH_CHECK(
      entered_ < step_->size(),
      "[plan] the step enters region \"",
      asked.name,
      "\" after the ",
      step_->size(),
      " that were planned (",
      names(),
      "). A guard covers one forward. If this is its first, the step is not the one that was "
      "planned: plan again.");
  const auto& planned = (*step_)[entered_];
  TORCH_CHECK(asked.name == planned.decision.name,
              "[plan] region #",
              entered_,
              " of the step is \"",
              asked.name,
              "\"; the plan has \"",
              planned.decision.name,
              "\" there. The step is not the one that was planned: plan again.");
  ++entered_;
  return planned;
}

std::optional<detail::JoinedRegions> DecisionsGuard::join(
    const std::vector<const CheckpointOptions*>& chain) {
  if (matching_ == Matching::ByName) {
    return std::nullopt;
  }
  // A region that does not match at all is reported by plan().
  const size_t following = entered_ < step_->size() ? (*step_)[entered_].decision.joined : 0;
  if (following == 0) {
    return std::nullopt;
  }
  check_chain((*step_)[entered_].decision, chain.size());
  detail::JoinedRegions joined;
  joined.outer = *chain.front();
  joined.outer.offload_inputs = (*step_)[entered_].decision.offload_inputs;
  joined.outer.name += " to " + chain[following]->name;
  first_joined_ = entered_;
  for (size_t i = 0; i <= following; ++i) {
    const bool is_plain = enter(*chain[i]).decision.is_plain;
    joined.inside.push_back(is_plain ? std::nullopt : std::optional(*chain[i]));
  }
  return joined;
}

void DecisionsGuard::begin(const RegionDecision& planned,
                           const std::vector<at::Tensor>& inputs,
                           RegionCheck::Arguments which) {
  const auto runs = planned.is_plain ? RegionCheck::Runs::Plainly : RegionCheck::Runs::AsRegion;
  check_->begin(planned, runs, inputs, which);
}

void DecisionsGuard::joined_begins(size_t index, const std::vector<at::Tensor>& inputs) {
  begin((*step_)[first_joined_ + index].decision, inputs, RegionCheck::Arguments::First);
}

void DecisionsGuard::ended(size_t saves) {
  check_->end(saves);
}

std::optional<CheckpointOptions> DecisionsGuard::plan(const CheckpointOptions& asked,
                                                      const std::vector<at::Tensor>& inputs) {
  const auto* found = matching_ == Matching::ByName ? find(asked.name) : &enter(asked);
  if (found == nullptr) {
    return asked;
  }
  const auto& planned = *found;
  check_chain(planned.decision, /*regions=*/1);
  begin(planned.decision, inputs, RegionCheck::Arguments::All);
  if (planned.decision.is_plain) {
    return std::nullopt;
  }
  CheckpointOptions options = asked;
  options.policy = planned.policy;
  options.offload_inputs = planned.decision.offload_inputs;
  options.allow_lossy = planned.decision.allow_lossy;
  return options;
}

void DecisionsGuard::finish() const {
  if (matching_ == Matching::ByName) {
    return;
  }
  TORCH_CHECK(entered_ == step_->size(),
              "[plan] the step entered ",
              entered_,
              " regions; the plan has ",
              step_->size(),
              " (",
              names(),
              "). The step is not the one that was planned: plan again.");
}

}  // namespace reprise::planning
