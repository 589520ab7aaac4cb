#include "fuzz/programs/outcome.h"

#include "fuzz/programs/run.h"

#include <reprise/options.h>

#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <regex>
#include <variant>

namespace reprise::fuzz {
namespace {

bool is_bitwise_equal(const at::Tensor& a, const at::Tensor& b) {
  if (a.defined() != b.defined() || !a.defined()) {
    return a.defined() == b.defined();
  }
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) {
    return false;
  }
  if (a.is_sparse() || b.is_sparse()) {
    return a.is_sparse() && b.is_sparse() &&
           is_bitwise_equal(a.coalesce().to_dense(), b.coalesce().to_dense());
  }
  const auto left = a.contiguous();
  const auto right = b.contiguous();
  return std::memcmp(left.const_data_ptr(), right.const_data_ptr(), left.nbytes()) == 0;
}

/// Reentrant regions sum the gradients of shared tensors in another order, and give arguments that
/// nothing depends on a zero gradient instead of none.
bool is_nearly_equal(const at::Tensor& a, const at::Tensor& b) {
  if (a.defined() != b.defined()) {
    const auto& gradient = a.defined() ? a : b;
    return gradient.is_floating_point() && !gradient.any().item<bool>();
  }
  return a.defined() && b.defined() && a.sizes() == b.sizes() && a.dtype() == b.dtype() &&
         (a.is_floating_point() || a.is_complex()) &&
         torch::allclose(a, b, /*rtol=*/1e-3, /*atol=*/1e-4, /*equal_nan=*/true);
}

/// A reentrant region returns new tensors for the leaves that its function returns.
bool is_gradient_of_result(const Program& program, size_t index) {
  const auto reg = static_cast<Register>(index) - program.registers;
  return reg >= 0 && reg < program.registers &&
         std::none_of(program.leaves.begin(), program.leaves.end(), [reg](const Leaf& leaf) {
           return leaf.reg == reg;
         });
}

bool has_reentrant_region(const Program& program) {
  bool found = false;
  for_each_instruction(program.body, [&found](const Instruction& instruction) {
    found = found || (instruction.kind == Kind::Region && instruction.options.use_reentrant);
  });
  return found;
}

/// Nothing if they are equal.
std::string first_difference(const Program& program,
                             const std::vector<at::Tensor>& plain,
                             const std::vector<at::Tensor>& regions) {
  const bool is_lenient = has_reentrant_region(program);
  for (size_t i = 0; i < plain.size(); ++i) {
    const auto& a = plain[i];
    const auto& b = regions[i];
    if (is_bitwise_equal(a, b) || (is_lenient && is_nearly_equal(a, b))) {
      continue;
    }
    if (is_lenient && is_gradient_of_result(program, i)) {
      continue;
    }
    const auto name = observed_name(program, i);
    const bool has_distance = a.defined() && b.defined() && a.sizes() == b.sizes() &&
                              a.is_floating_point() && !a.is_sparse();
    return has_distance ? c10::str(name, ", by at most ", (a - b).abs().max().item().toDouble())
                        : name;
  }
  return "";
}

struct Failure {
  std::string message;
  bool is_ours;
};

std::variant<std::vector<at::Tensor>, Failure> try_run(const Program& program,
                                                       const RunOptions& options) {
  try {
    return run(program, options);
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    const bool is_ours = dynamic_cast<const CheckpointError*>(&error) != nullptr ||
                         message.find("[reprise]") != std::string::npos;
    return Failure{message, is_ours};
  } catch (const std::exception& error) {
    return Failure{error.what(), false};
  }
}

}  // namespace

Outcome judge(const Program& program, int fault) {
  // Backtraces make errors slow, and shrinking makes many.
  static const bool has_no_backtraces = (c10::SetStackTraceFetcher([] { return ""; }), true);
  TORCH_CHECK(has_no_backtraces);
  const auto plain = try_run(program, {.with_regions = false});
  if (const auto* failure = std::get_if<Failure>(&plain)) {
    return {Verdict::Invalid, failure->message};
  }
  const auto regions = try_run(program, {.with_regions = true, .fault = fault});
  if (const auto* failure = std::get_if<Failure>(&regions)) {
    // A reentrant region runs forward without a graph, which LibTorch itself may refuse.
    const bool is_refused = failure->is_ours || has_reentrant_region(program);
    return {is_refused ? Verdict::Refused : Verdict::WrongError, failure->message};
  }
  const auto& expected = std::get<std::vector<at::Tensor>>(plain);
  auto difference = first_difference(program, expected, std::get<std::vector<at::Tensor>>(regions));
  if (difference.empty()) {
    return {};
  }
  // A program that differs from itself says nothing about regions.
  for (int i = 0; i < 3; ++i) {
    const auto again = try_run(program, {.with_regions = false});
    const auto* seen = std::get_if<std::vector<at::Tensor>>(&again);
    if (seen == nullptr || !first_difference(program, expected, *seen).empty()) {
      return {Verdict::Invalid, "not deterministic without regions"};
    }
  }
  return {Verdict::Different, std::move(difference)};
}

std::string message_kind(const std::string& message) {
  static const std::regex shape(R"(\[[0-9, ]*\])");
  static const std::regex names("save_ops\\([^)]*\\)|aten::[A-Za-z0-9_.]+");
  static const std::regex number("[0-9]+");
  const std::string line = message.substr(0, message.find('\n'));
  const auto unnamed = std::regex_replace(std::regex_replace(line, shape, "[..]"), names, "OP");
  return std::regex_replace(unnamed, number, "#").substr(0, 160);
}

}  // namespace reprise::fuzz
