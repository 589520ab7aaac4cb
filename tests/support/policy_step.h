// One differentiated step under a policy, compared with the plain one: output, gradient, and what
// the generator gives afterwards.
#pragma once

#include "support/bitwise.h"
#include "support/tensors.h"

#include <reprise/reprise.h>

#include <gtest/gtest.h>

#include <functional>
#include <memory>

namespace reprise::testing {

using Fn = std::function<at::Tensor(at::Tensor)>;

inline std::shared_ptr<const Policy> keep_all() {
  return policy::from([](const OpContext&) { return Decision::Keep; }, "keep_all");
}

inline at::Tensor input() {
  return torch::linspace(-1, 1, 16).reshape({4, 4}).requires_grad_();
}

struct Step {
  at::Tensor output, gradient, next_random;
};

/// One step over `fn`, plainly or as a region.
inline Step step(const Fn& fn,
                 const std::shared_ptr<const Policy>& policy,
                 at::Tensor x = input()) {
  torch::manual_seed(4);
  Step result;
  result.output = policy ? checkpoint({.policy = policy}, fn, x) : fn(x);
  const auto upstream = torch::linspace(1, 2, result.output.numel())
                            .view(result.output.sizes())
                            .to(result.output.dtype());
  result.gradient = torch::autograd::grad({result.output}, {x}, {upstream})[0];
  result.next_random = torch::rand({3});
  return result;
}

inline void expect_equal_to_plain(const Fn& fn, const std::shared_ptr<const Policy>& policy) {
  const auto plain = step(fn, nullptr);
  const auto ours = step(fn, policy);
  EXPECT_TRUE(bitwise_equal(plain.output, ours.output));
  EXPECT_TRUE(bitwise_equal(plain.gradient, ours.gradient));
  EXPECT_TRUE(bitwise_equal(plain.next_random, ours.next_random));
}

}  // namespace reprise::testing
