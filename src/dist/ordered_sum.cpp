#include "dist/ordered_sum.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace reprise::dist {

namespace {

// Below the size from which ATen uses several threads: the summing thread runs beside the compute
// threads, and would start as many again.
constexpr int64_t kSerial = 32000;

void sum_directly(at::Tensor out, std::vector<at::Tensor>& terms) {
  // If `out` is one of the later terms, it must not be overwritten before that term is added.
  const auto is_needed = std::any_of(terms.begin() + 2, terms.end(), [&](const auto& term) {
    return term.data_ptr() == out.data_ptr();
  });
  auto sum = is_needed ? terms[0] : out;
  at::add_out(sum, terms[0], terms[1]);
  for (size_t i = 2; i < terms.size(); ++i) {
    auto& target = i + 1 == terms.size() ? out : sum;
    at::add_out(target, sum, terms[i]);
  }
}

void sum_in_float(const at::Tensor& out, const std::vector<at::Tensor>& terms) {
  auto sum = terms[0].to(at::kFloat);
  for (size_t i = 1; i < terms.size(); ++i) {
    sum.add_(terms[i]);
  }
  out.copy_(sum);
}

}  // namespace

void ordered_sum(const at::Tensor& out, const std::vector<at::Tensor>& terms) {
  const auto type = out.scalar_type();
  // The sum of two 16-bit terms is rounded only once anyway.
  const bool is_rounded_often = (type == at::kHalf || type == at::kBFloat16) && terms.size() > 2;
  for (int64_t begin = 0; begin < out.numel(); begin += kSerial) {
    const auto length = std::min(kSerial, out.numel() - begin);
    std::vector<at::Tensor> slices;
    for (const auto& term : terms) {
      slices.push_back(term.narrow(0, begin, length));
    }
    const auto target = out.narrow(0, begin, length);
    if (terms.size() == 1) {
      target.copy_(slices[0]);
    } else if (is_rounded_often) {
      sum_in_float(target, slices);
    } else {
      sum_directly(target, slices);
    }
  }
}

}  // namespace reprise::dist
