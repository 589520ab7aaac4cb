// Custom operators with side effects: each counts its runs.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <vector>

namespace reprise::testing::effectful {

/// Runs since the last reset, of all operators below.
int runs();
void reset();

/// Calls by name, as a C++ extension would.
template <class Result, class... Args>
Result call(const char* name, Args... args) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Result(Args...)>().call(
      args...);
}

/// Returns nothing: effectful by its schema.
inline void report(const at::Tensor& x) {
  call<void, const at::Tensor&>("reprise_once::log", x);
}
/// The same in a composite operator that LibTorch inferred the schema of; takes no tensor.
inline void tick() {
  call<void>("reprise_once::tick");
}
/// x times the number of runs: a second run gives other numbers. With a gradient.
inline at::Tensor scaled(const at::Tensor& x) {
  return call<at::Tensor, const at::Tensor&>("reprise_once::scaled", x);
}
/// Returns its argument.
inline at::Tensor pass(const at::Tensor& x) {
  return call<at::Tensor, const at::Tensor&>("reprise_once::identity", x);
}
/// The number of runs.
inline int64_t ticket() {
  return call<int64_t>("reprise_once::ticket");
}
/// Parts of x without a gradient, and a list of numbers.
inline std::tuple<std::vector<at::Tensor>, std::vector<int64_t>> parts(const at::Tensor& x) {
  return call<std::tuple<std::vector<at::Tensor>, std::vector<int64_t>>, const at::Tensor&>(
      "reprise_once::parts", x.detach());
}
/// Random numbers.
inline at::Tensor noise(const at::Tensor& x) {
  return call<at::Tensor, const at::Tensor&>("reprise_once::noise", x);
}
/// Not effectful itself; its kernel logs.
inline at::Tensor logging_exp(const at::Tensor& x) {
  return call<at::Tensor, const at::Tensor&>("reprise_once::logging_exp", x);
}

}  // namespace reprise::testing::effectful
