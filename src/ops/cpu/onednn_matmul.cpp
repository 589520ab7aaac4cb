#include "ops/cpu/onednn_matmul.h"

#include "memory/cpu_counter.h"

#include <reprise/ops/products.h>

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>

// LibTorch exports it, but its headers leave it out. The version of LibTorch is fixed.
namespace at::native {
void mkldnn_matmul(
    const Tensor& mat1, const Tensor& mat2, const Tensor& result, float beta, float alpha);
}

namespace reprise {

namespace ops {

namespace {

// Multiplications of a product from which on oneDNN's longer call pays off, about 10 us on one core
// of an AMD EPYC.
constexpr int64_t kLeastWork = int64_t{1} << 20;

bool is_amd_with_avx512() {
#ifdef __x86_64__
  __builtin_cpu_init();
  return __builtin_cpu_is("amd") && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq");
#else
  return false;
#endif
}

// Only a try shows whether ONEDNN_MAX_CPU_ISA leaves oneDNN with AVX-512: without, it throws.
bool has_kernel() {
  if (!is_amd_with_avx512() || !at::hasMKLDNN()) {
    return false;
  }
  const auto scalar = [] {  // without the dispatcher: a region may be recording operators
    auto matrix = at::detail::empty_cpu({1, 1}, at::kFloat);
    *matrix.mutable_data_ptr<float>() = 0;
    return at::Tensor(std::move(matrix));
  };
  try {
    at::native::mkldnn_matmul(scalar(), scalar(), scalar(), 0, 1);
    return true;
  } catch (const c10::Error&) {
    return false;
  }
}

bool is_stored_whole(const at::Tensor& matrix) {
  return matrix.is_contiguous() || matrix.t().is_contiguous();
}

bool is_float_on_cpu(const at::Tensor& matrix) {
  return matrix.is_cpu() && matrix.scalar_type() == at::kFloat;
}

}  // namespace

bool has_onednn_matmul() {
  static const bool has = has_kernel();
  return has && at::globalContext().userEnabledMkldnn();
}

bool serves_onednn_matmul(const at::Tensor& a, const at::Tensor& b) {
  const int64_t rows = a.size(0), width = a.size(1), columns = b.size(1);
  return is_float_on_cpu(a) && is_float_on_cpu(b) && rows > 1 && width > 1 && columns > 1 &&
         rows * width * columns >= kLeastWork && is_stored_whole(a) && is_stored_whole(b) &&
         has_onednn_matmul();
}

void onednn_matmul(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, bool adds) {
  at::get_num_threads();  // a new thread has the process's number of threads only after this call
  const memory::UncountedWorkspace uncounted;
  at::native::mkldnn_matmul(a, b, out, adds ? 1.F : 0.F, 1.F);
}

}  // namespace ops

const char* cpu_product_library() {
  return ops::has_onednn_matmul() ? "oneDNN" : at::hasMKL() ? "MKL" : "LibTorch";
}

}  // namespace reprise
