// Named ranges, and the policy that keeps them.
#include "checkpoint/ops/named_ranges.h"

#include <reprise/options.h>
#include <reprise/policy.h>

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace reprise {
namespace {

thread_local NamedRange* innermost_range = nullptr;

/// Whether one of the path's ranges has this name, or several in a row if it has a "/".
bool has_range(std::string_view path, std::string_view name) {
  for (auto at = path.find(name); at != std::string_view::npos; at = path.find(name, at + 1)) {
    const auto end = at + name.size();
    if ((at == 0 || path[at - 1] == '/') && (end == path.size() || path[end] == '/')) {
      return true;
    }
  }
  return false;
}

class SaveNamed final : public Policy {
 public:
  explicit SaveNamed(std::vector<std::string> names) : names_(std::move(names)) {
    if (names_.empty() || std::find(names_.begin(), names_.end(), "") != names_.end()) {
      throw CheckpointError(
          "[reprise] policy::save_named needs at least one name, and no empty one.");
    }
  }

  Decision decide(const OpContext& op) const override {
    const bool is_named = !op.range.empty() && !op.writes_arguments &&
                          std::any_of(names_.begin(), names_.end(), [&op](const std::string& name) {
                            return has_range(op.range, name);
                          });
    return is_named ? Decision::Keep : Decision::Recompute;
  }

  void verify(const std::vector<KeptOp>& kept) const override {
    for (const auto& name : names_) {
      const bool is_found = std::any_of(kept.begin(), kept.end(), [&name](const KeptOp& op) {
        return std::any_of(op.ranges.begin(), op.ranges.end(), [&name](const std::string& range) {
          return has_range(range, name);
        });
      });
      if (!is_found) {
        throw CheckpointError(
            c10::str("[reprise] policy ",
                     describe(),
                     ": no operator whose result could be kept ran in a NamedRange \"",
                     name,
                     "\" in this region, so the policy has no effect there. A range counts if the "
                     "region's own function opens it."));
      }
    }
  }

  std::string describe() const override { return "save_named(" + c10::Join(", ", names_) + ")"; }

 private:
  const std::vector<std::string> names_;
};

}  // namespace

NamedRange::NamedRange(std::string name) : name_(std::move(name)), outer_(innermost_range) {
  if (name_.empty()) {
    throw CheckpointError("[reprise] a NamedRange needs a name.");
  }
  innermost_range = this;
}

NamedRange::~NamedRange() {
  innermost_range = outer_;
}

namespace detail {

std::string_view NamedRanges::path() {
  auto* const innermost = innermost_range;
  if (innermost == nullptr) {
    return {};
  }
  if (innermost->path_.empty()) {
    for (const auto* range = innermost; range != nullptr; range = range->outer_) {
      innermost->path_.insert(0, innermost->path_.empty() ? range->name_ : range->name_ + "/");
    }
  }
  return innermost->path_;
}

NamedRange* NamedRanges::exchange(NamedRange* innermost) {
  return std::exchange(innermost_range, innermost);
}

}  // namespace detail

namespace policy {

std::shared_ptr<const Policy> save_named(std::vector<std::string> names) {
  return std::make_shared<SaveNamed>(std::move(names));
}

}  // namespace policy
}  // namespace reprise
