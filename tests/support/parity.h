// Comparison with what a reference implementation computed.
#pragma once

#include "support/tensors.h"

#include <reprise/io/json.h>
#include <reprise/io/tensor_file.h>

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace reprise::testing {

/// Of a model against the reference: its relative error in float32, and in bfloat16 as a multiple
/// of the reference's own.
constexpr double kFloat32Bound = 1e-5;
constexpr double kBFloat16Factor = 2.0;

/// max|a - b| / max|b|, in double.
inline double relative_error(const at::Tensor& a, const at::Tensor& b) {
  const auto x = a.detach().to(at::kCPU, at::kDouble), y = b.detach().to(at::kCPU, at::kDouble);
  if (x.sizes() != y.sizes()) {
    ADD_FAILURE() << "shape " << x.sizes() << " against " << y.sizes();
    return std::numeric_limits<double>::infinity();
  }
  const double scale = y.abs().max().item<double>();
  const double error = (x - y).abs().max().item<double>();
  return scale > 0 ? error / scale : error;
}

/// The tensors and metadata of a fixture's expected.safetensors.
class Expected {
 public:
  explicit Expected(const std::filesystem::path& folder)
      : file_(folder / "expected.safetensors"),
        bfloat16_errors_(parse_json(file_.metadata().at("bfloat16_errors"), "bfloat16_errors")) {}

  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  at::Tensor operator[](const std::string& name) const {
    const auto* info = file_.find(name);
    TORCH_CHECK(info != nullptr, "the fixture has no tensor ", name);
    return file_.view(*info).clone();
  }
  std::vector<std::string> gradients() const {
    std::vector<std::string> names;
    for (const auto& info : file_.tensors()) {
      if (info.name.starts_with("grad.")) {
        names.push_back(info.name.substr(5));
      }
    }
    return names;
  }
  /// The reference's own error in bfloat16 against its float32.
  double bfloat16_error(const std::string& name) const { return bfloat16_errors_.at(name); }

 private:
  TensorFile file_;
  Json bfloat16_errors_;
};

}  // namespace reprise::testing
