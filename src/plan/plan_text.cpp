// A plan in words: MemoryPlan::describe().
#include "plan/memory_plan_state.h"

#include <sstream>
#include <string>

namespace reprise {

namespace {

double mebibytes(int64_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>(1_MiB);
}

/// The operators with that decision, each after a space.
std::string names_of(const RegionDecision& region, Decision decision) {
  std::string text;
  for (const OpDecision& op : region.ops) {
    if (op.decision == decision) {
      text += " " + op.name + (op.overload.empty() ? "" : "." + op.overload);
      text += op.call_index > 0 ? "#" + std::to_string(op.call_index + 1) : "";
    }
  }
  return text;
}

std::string text_of(const RegionDecision& decision) {
  if (decision.joined > 0) {
    return decision.is_plain ? "joined in one region, plain inside"
                             : "joined in one region, each a region inside";
  }
  if (decision.is_plain) {
    return "plain";
  }
  std::string text;
  const auto add = [&text](const char* what, const std::string& names) {
    if (!names.empty()) {
      text += (text.empty() ? "" : "; ") + std::string(what) + ":" + names;
    }
  };
  add("kept", names_of(decision, Decision::Keep));
  add("offloaded",
      names_of(decision, Decision::Offload) + (decision.offload_inputs ? " inputs" : ""));
  add(decision.allow_lossy ? "compressed (LOSSY)" : "compressed",
      names_of(decision, Decision::Compress));
  return text.empty() ? "all recomputed" : text;
}

}  // namespace

std::string MemoryPlan::describe() const {
  std::ostringstream text;
  text.precision(4);
  text << mebibytes(peak_bytes()) << " MiB of activations at the peak, budget "
       << mebibytes(budget()) << " MiB; ";
  if (host_bytes() > 0) {
    text << mebibytes(host_bytes()) << " MiB of host memory; ";
  }
  text << extra_ms() << " ms more than without checkpointing (predicted)\n";
  if (state_->chosen->is_lossy()) {
    text << "LOSSY: some results come back rounded, so gradients differ from plain training\n";
  }
  const auto& decisions = state_->chosen->decisions;
  for (size_t first = 0; first < decisions.size();) {
    size_t end = first + 1 + decisions[first].joined;
    while (decisions[first].joined == 0 && end < decisions.size() &&
           planning::decide_the_same(decisions[first], decisions[end])) {
      ++end;
    }
    const auto name = [&](size_t i) {
      return decisions[i].name.empty() ? "region " + std::to_string(i) : decisions[i].name;
    };
    text << "  " << name(first);
    if (end - first > 1) {
      text << " to " << name(end - 1);
    }
    text << ": " << text_of(decisions[first]) << "\n";
    first = end;
  }
  return text.str();
}

}  // namespace reprise
