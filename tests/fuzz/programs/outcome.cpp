#include "fuzz/programs/outcome.h"

#include "fuzz/programs/run.h"

#include <reprise/options.h>

#include <torch/torch.h>

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
  const auto left = a.contiguous();
  const auto right = b.contiguous();
  return std::memcmp(left.const_data_ptr(), right.const_data_ptr(), left.nbytes()) == 0;
}

std::string first_difference(const std::vector<Observed>& plain,
                             const std::vector<Observed>& regions) {
  for (size_t i = 0; i < plain.size(); ++i) {
    const auto& a = plain[i].value;
    const auto& b = regions[i].value;
    if (is_bitwise_equal(a, b)) {
      continue;
    }
    if (!a.defined() || !b.defined() || a.sizes() != b.sizes() || !a.is_floating_point()) {
      return plain[i].what;
    }
    return c10::str(plain[i].what, ", by at most ", (a - b).abs().max().item().toDouble());
  }
  return "";
}

struct Failure {
  std::string message;
  bool is_ours;
};

std::variant<std::vector<Observed>, Failure> try_run(const Program& program,
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
  const auto plain = try_run(program, {.with_regions = false});
  if (const auto* failure = std::get_if<Failure>(&plain)) {
    return {Verdict::Invalid, failure->message};
  }
  const auto regions = try_run(program, {.with_regions = true, .fault = fault});
  if (const auto* failure = std::get_if<Failure>(&regions)) {
    return {failure->is_ours ? Verdict::Refused : Verdict::WrongError, failure->message};
  }
  const auto& expected = std::get<std::vector<Observed>>(plain);
  auto difference = first_difference(expected, std::get<std::vector<Observed>>(regions));
  if (difference.empty()) {
    return {};
  }
  // A program that differs from itself says nothing about regions.
  for (int i = 0; i < 3; ++i) {
    const auto again = try_run(program, {.with_regions = false});
    const auto* seen = std::get_if<std::vector<Observed>>(&again);
    if (seen == nullptr || !first_difference(expected, *seen).empty()) {
      return {Verdict::Invalid, "not deterministic without regions"};
    }
  }
  return {Verdict::Different, std::move(difference)};
}

std::string message_kind(const std::string& message) {
  std::string line = message.substr(0, message.find('\n'));
  line = std::regex_replace(line, std::regex(R"(the region of [^{]*\{lambda[^}]*\}[^ ,.]*)"), "R");
  line = std::regex_replace(line, std::regex("the region of .*::operator\\(\\)[^ ]*"), "R");
  line = std::regex_replace(line, std::regex("region \"[^\"]*\""), "R");
  line = std::regex_replace(line, std::regex(R"(\[[0-9, ]*\])"), "[..]");
  line = std::regex_replace(line, std::regex("[0-9]+"), "#");
  return line.substr(0, 160);
}

}  // namespace reprise::fuzz
