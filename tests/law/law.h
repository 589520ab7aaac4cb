// The law: a program computes the same bits with its regions as without them, or gets an error that
// names the cause. These tests are programs that attack it.
//
// A program is a function of a Way, which says how its regions run. It builds everything it needs,
// runs, and returns all that can be observed afterwards: losses, gradients, buffers. law() runs it
// plainly and in every other way, and compares bit by bit, the state of the default generator
// included.
#pragma once

#include "support/bitwise.h"

#include <reprise/reprise.h>

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise::testing {

/// How the regions of a program run.
class Way {
 public:
  /// Without regions.
  Way() = default;
  Way(std::string name, CheckpointOptions options)
      : name_(std::move(name)), options_(std::move(options)) {}

  const std::string& name() const { return name_; }
  bool is_plain() const { return !options_; }
  /// The options of a region, to be changed for one region; only if !is_plain().
  CheckpointOptions options() const { return *options_; }

  /// Calls `fn(args...)` as a region, or plainly.
  template <class Fn, class... Args>
  auto operator()(Fn&& fn, Args&&... args) const {
    return is_plain() ? detail::call_plainly(std::forward<Fn>(fn), std::forward<Args>(args)...)
                      : checkpoint(*options_, std::forward<Fn>(fn), std::forward<Args>(args)...);
  }

  /// The same, with options that `change` has changed.
  template <class Change, class Fn, class... Args>
  auto with(const Change& change, Fn&& fn, Args&&... args) const {
    if (is_plain()) {
      return detail::call_plainly(std::forward<Fn>(fn), std::forward<Args>(args)...);
    }
    CheckpointOptions options = *options_;
    change(options);
    return checkpoint(options, std::forward<Fn>(fn), std::forward<Args>(args)...);
  }

 private:
  std::string name_ = "plain";
  std::optional<CheckpointOptions> options_;
};

inline std::shared_ptr<const Policy> keep_some() {
  return policy::from(
      [](const OpContext& op) {
        const bool writes = op.name.ends_with('_') || op.overload.ends_with("out");
        return !writes && op.call_index % 2 == 0 ? Decision::Keep : Decision::Recompute;
      },
      "keep_some");
}

/// Ways that every program can run in.
inline std::vector<Way> ways() {
  return {
      {"full", {.name = "attacked"}},
      {"no early stop", {.early_stop = false, .name = "attacked"}},
      {"policy", {.policy = keep_some(), .name = "attacked"}},
      {"values", {.determinism_check = DeterminismCheck::Values, .name = "attacked"}},
  };
}

/// The reentrant variant, for programs within its documented limits.
inline Way reentrant() {
  return {"reentrant", {.use_reentrant = true, .name = "attacked"}};
}

/// The ways that every program can run in, and the reentrant one.
inline std::vector<Way> all_ways() {
  auto all = ways();
  all.push_back(reentrant());
  return all;
}

/// A leaf of different values between -1 and 1.
inline at::Tensor leaf(at::IntArrayRef sizes, at::ScalarType dtype = at::kFloat) {
  return torch::linspace(-1, 1, c10::multiply_integers(sizes), dtype)
      .reshape(sizes)
      .set_requires_grad(true);
}

using Seen = std::vector<at::Tensor>;
using Program = std::function<std::vector<at::Tensor>(const Way&)>;

/// Runs the program from the same random state. Adds the state that it leaves.
inline std::vector<at::Tensor> observe(const Program& program, const Way& way) {
  torch::manual_seed(20);
  auto seen = program(way);
  seen.push_back(at::detail::getDefaultCPUGenerator().get_state());
  return seen;
}

/// The program computes the same in every way.
inline void law(const Program& program, const std::vector<Way>& others = ways()) {
  const auto expected = observe(program, Way());
  for (const auto& way : others) {
    SCOPED_TRACE(way.name());
    try {
      expect_bitwise_equal(expected, observe(program, way));
    } catch (const c10::Error& error) {
      ADD_FAILURE() << "refused: " << error.what_without_backtrace();
    }
  }
}

/// The program computes the same, or is refused with an error that contains `cause`. For patterns
/// that some ways support and others refuse; never for "either is fine" without a reason.
inline void law_or_refused(const Program& program,
                           const std::string& cause,
                           const std::vector<Way>& others = ways()) {
  const auto expected = observe(program, Way());
  for (const auto& way : others) {
    SCOPED_TRACE(way.name());
    try {
      expect_bitwise_equal(expected, observe(program, way));
    } catch (const c10::Error& error) {
      EXPECT_TRUE(contains(error.what(), cause));
    }
  }
}

/// The same, where the reentrant variant may refuse: its forward has no history.
inline void law_or_refused_if_reentrant(const Program& program) {
  law(program);
  law_or_refused(program, "attacked", {reentrant()});
}

/// The program is refused in every way, with an error that contains `cause`.
inline void refused(const Program& program,
                    const std::string& cause,
                    const std::vector<Way>& others = ways()) {
  for (const auto& way : others) {
    SCOPED_TRACE(way.name());
    EXPECT_TRUE(contains(message_of<c10::Error>([&] { observe(program, way); }), cause));
  }
}

}  // namespace reprise::testing
