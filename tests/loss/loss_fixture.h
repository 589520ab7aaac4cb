// What other systems' losses gave (tests/fixtures/generate_losses.py), and comparison with it.
#pragma once

#include "support/fixtures.h"
#include "support/parity.h"
#include "support/tensors.h"

#include <reprise/io/json.h>
#include <reprise/io/tensor_file.h>

#include <gtest/gtest.h>

#include <string>

namespace reprise::testing {

/// One folder of tests/fixtures/losses.
class LossFixture {
 public:
  explicit LossFixture(const std::string& name)
      : file_(fixtures() / "losses" / name / "expected.safetensors"),
        cases_(parse_json(file_.metadata().at("settings"), "settings")) {}

  /// The options of every case, by its name.
  const Json& cases() const { return cases_; }
  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  at::Tensor operator[](const std::string& name) const {
    const auto* info = file_.find(name);
    TORCH_CHECK(info != nullptr, "the fixture has no tensor ", name);
    return file_.view(*info).clone();
  }
  at::Tensor leaf(const std::string& name) const { return (*this)[name].requires_grad_(); }

  /// The reference is in float32, so two digits are lost at most.
  void expect_equal(const at::Tensor& found, const std::string& name) const {
    EXPECT_LT(relative_error(found, (*this)[name]), 1e-6) << name;
  }

  /// The loss of a case, and its gradient, which backward has not been called for yet.
  void expect_loss_and_gradient(const std::string& name,
                                const at::Tensor& loss,
                                const at::Tensor& leaf) const {
    expect_equal(loss, name + ".loss");
    loss.backward();
    expect_equal(leaf.grad(), name + ".grad");
  }

 private:
  TensorFile file_;
  Json cases_;
};

}  // namespace reprise::testing
