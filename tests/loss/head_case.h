// A small head with hidden states and targets, and how its results are compared with those of
// whole logits.
#pragma once

#include "support/devices.h"
#include "support/parity.h"
#include "support/tensors.h"

#include <reprise/loss/head.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace reprise::testing {

struct HeadCase {
  at::Tensor hidden, weight, bias, targets;
  LogitShape shape = {};

  LinearHead head() const { return {.weight = weight, .bias = bias, .shape = shape}; }
  /// What gradients are taken of.
  std::vector<at::Tensor> leaves() const {
    std::vector<at::Tensor> list{hidden, weight};
    if (bias.defined()) {
      list.push_back(bias);
    }
    return list;
  }
  at::Tensor counts() const { return targets != kIgnoredLabel; }
  /// Targets that can be indexed with.
  at::Tensor safe_targets() const { return targets.clamp_min(0).unsqueeze(-1); }
  at::Tensor logits(double temperature = 1) const {
    return shaped_logits(at::linear(hidden, weight, bias), shape) / temperature;
  }
};

struct CaseShape {
  int64_t rows = 3, length = 7, width = 6, vocabulary = 13;
  bool has_bias = true;
  at::ScalarType type = at::kFloat;
  at::DeviceType device = at::kCPU;
  LogitShape logits = {};
};

/// As products are, scaled, and scaled and capped.
inline const std::vector<LogitShape>& logit_shapes() {
  static const std::vector<LogitShape> shapes{{}, {.scale = 0.5}, {.scale = 1.5, .softcap = 2.0}};
  return shapes;
}

/// The same values in every type, as far as it can hold them. A third of the targets are ignored.
inline HeadCase make_case(const CaseShape& shape = {}) {
  torch::manual_seed(1);
  const auto options = at::TensorOptions(at::kDouble);
  const auto leaf = [&](const at::Tensor& values) {
    return values.to(shape.device, shape.type).set_requires_grad(true);
  };
  HeadCase made;
  made.hidden = leaf(torch::randn({shape.rows, shape.length, shape.width}, options));
  made.weight = leaf(torch::randn({shape.vocabulary, shape.width}, options));
  made.bias = shape.has_bias ? leaf(torch::randn({shape.vocabulary}, options)) : at::Tensor();
  made.targets = torch::randint(shape.vocabulary, {shape.rows, shape.length}, at::kLong);
  made.targets.view({-1}).slice(0, 1, std::nullopt, 3).fill_(kIgnoredLabel);
  made.targets = made.targets.to(shape.device);
  made.shape = shape.logits;
  return made;
}

/// Of a scalar, whose graph is kept; undefined for what it does not depend on.
inline std::vector<at::Tensor> gradients(const at::Tensor& loss,
                                         const std::vector<at::Tensor>& leaves) {
  return torch::autograd::grad({loss},
                               leaves,
                               /*grad_outputs=*/{},
                               /*retain_graph=*/true,
                               /*create_graph=*/false,
                               /*allow_unused=*/true);
}

/// A weight for each token, so that all have gradients of their own.
inline at::Tensor token_weights(const at::Tensor& targets, double first, double last) {
  return torch::linspace(first, last, targets.numel(), targets.options().dtype(at::kDouble))
      .view(targets.sizes());
}

inline void expect_close(const std::vector<at::Tensor>& ours,
                         const std::vector<at::Tensor>& expected,
                         double tolerance) {
  ASSERT_EQ(ours.size(), expected.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    ASSERT_TRUE(ours[i].defined() && expected[i].defined()) << "tensor " << i;
    EXPECT_LT(relative_error(ours[i], expected[i]), tolerance) << "tensor " << i;
  }
}

inline double tolerance_of(at::ScalarType type) {
  return type == at::kDouble ? 1e-12 : 5e-6;
}

/// In tokens: one, some that divide the 14 that count and some that do not, all, and the default.
inline const std::vector<int64_t>& chunk_sizes() {
  static const std::vector<int64_t> sizes{1, 3, 7, 100, 0};
  return sizes;
}

}  // namespace reprise::testing
