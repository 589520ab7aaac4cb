#include "plan/cost/joined_regions.h"

#include <c10/util/Exception.h>

namespace reprise::planning {

namespace {

void check_keeps_nothing(const RegionDecision& joined) {
  TORCH_CHECK(joined.ops.empty(),
              "[plan] region \"",
              joined.name,
              "\" is joined with others and planned to keep ",
              joined.ops.size(),
              " results: inside an outer region a region is plain or computes everything again.");
}

}  // namespace

void check_joined(const std::vector<RegionDecision>& decisions) {
  for (size_t i = 0; i < decisions.size(); i += decisions[i].joined + 1) {
    const RegionDecision& first = decisions[i];
    const size_t following = decisions.size() - i - 1;
    TORCH_CHECK(first.joined <= following,
                "[plan] region \"",
                first.name,
                "\" is planned to be joined with ",
                first.joined,
                " regions after it, but only ",
                following,
                " follow. Join fewer.");
    if (first.joined == 0) {
      continue;
    }
    check_keeps_nothing(first);
    for (size_t k = i + 1; k <= i + first.joined; ++k) {
      TORCH_CHECK(decisions[k].joined == 0 && !decisions[k].offload_inputs,
                  "[plan] region \"",
                  decisions[k].name,
                  "\" is joined with \"",
                  first.name,
                  "\" before it, so it can neither be joined with others nor offload inputs: the "
                  "outer region alone holds some. Set that for the first one.");
      check_keeps_nothing(decisions[k]);
    }
  }
}

void check_chain(const RegionDecision& decision, size_t regions) {
  TORCH_CHECK(decision.joined < regions,
              "[plan] region \"",
              decision.name,
              "\" is planned to be joined with ",
              decision.joined,
              " regions after it, but the code that runs it can join ",
              regions - 1,
              ". The step is not the one that was planned: plan again.");
}

std::vector<size_t> joinable_regions(const StepTrace& trace) {
  std::vector<size_t> joinable(trace.regions.size());
  for (size_t i = 0; i < joinable.size(); ++i) {
    size_t end = i;
    while (end <= i + trace.regions[i].joinable && end < joinable.size() &&
           trace.regions[end].log_bytes == 0) {
      ++end;
    }
    joinable[i] = end > i ? end - i - 1 : 0;
  }
  return joinable;
}

}  // namespace reprise::planning
