#include "fuzz/programs/shrink.h"

#include "fuzz/programs/edits.h"
#include "fuzz/programs/types.h"

#include <utility>

namespace reprise::fuzz {
namespace {

class Shrinker {
 public:
  Shrinker(Program program, const std::function<bool(const Program&)>& still_fails, size_t runs)
      : best_(std::move(program)), still_fails_(still_fails), runs_left_(runs) {}

  Program run() {
    bool has_improved = true;
    while (has_improved && runs_left_ > 0) {
      has_improved = false;
      for (const auto& list : {&deletions, &unwrappings, &simplifications, &redirections}) {
        has_improved = pass(list) || has_improved;
      }
    }
    return std::move(best_);
  }

 private:
  /// Tries the edits of each instruction, the last one first: less depends on it.
  bool pass(std::vector<Edit> (*edits_at)(const Program&, size_t)) {
    bool has_improved = false;
    for (size_t at = instruction_count(best_) + 1; at-- > 0;) {
      // An edit that worked may make way for another at the same place.
      for (bool worked = true; worked && at <= instruction_count(best_);) {
        worked = false;
        for (const auto& edit : edits_at(best_, at)) {
          if (try_edit(edit)) {
            worked = has_improved = true;
            break;
          }
        }
      }
    }
    return has_improved;
  }

  bool try_edit(const Edit& edit) {
    if (runs_left_ == 0) {
      return false;
    }
    Program candidate = best_;
    if (!edit(candidate) || !is_well_typed(candidate)) {
      return false;
    }
    --runs_left_;
    if (!still_fails_(candidate)) {
      return false;
    }
    best_ = std::move(candidate);
    return true;
  }

  Program best_;
  const std::function<bool(const Program&)>& still_fails_;
  size_t runs_left_;
};

}  // namespace

Program shrink(Program program,
               const std::function<bool(const Program&)>& still_fails,
               size_t most_runs) {
  return Shrinker(std::move(program), still_fails, most_runs).run();
}

}  // namespace reprise::fuzz
