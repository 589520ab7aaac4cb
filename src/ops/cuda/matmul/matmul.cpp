// cublasLt's matrices are column-major: it sees a row-major matrix as its transpose. So it is asked
// for d^T = b^T a^T: b comes first, and m and n are swapped.
//
// Descriptors live on the stack and are made for each call, which is cheap. Only the choice of the
// algorithm is cached, since asking for proposals costs tens of microseconds.
#include "ops/cuda/matmul/matmul.h"

#include "ops/cuda/check.h"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <unordered_map>

namespace reprise::cuda {
namespace {

struct Device {
  cublasLtHandle_t handle = nullptr;
  int ordinal = 0;
};

void check_status(cublasStatus_t status, const char* what, const Matmul& job) {
  if (status == CUBLAS_STATUS_SUCCESS) {
    return;
  }
  const auto matrix = [](int64_t rows, int64_t columns, int64_t stride, bool transposed) {
    return "(" + std::to_string(rows) + ", " + std::to_string(columns) + ")" +
           (transposed ? " transposed" : "") + " stride " + std::to_string(stride);
  };
  constexpr std::array kNames = {"bfloat16", "half", "float"};
  throw std::runtime_error(std::string("[matmul] ") + what + ": " + cublasLtGetStatusName(status) +
                           " for " + matrix(job.m, job.k, job.lda, job.transpose_a) + " by " +
                           matrix(job.k, job.n, job.ldb, job.transpose_b) + " to stride " +
                           std::to_string(job.ldd) + ", " + kNames.at(static_cast<size_t>(job.in)) +
                           " to " + kNames.at(static_cast<size_t>(job.out)));
}

Device open_device(int ordinal, const Matmul& job) {
  Device device{.ordinal = ordinal};
  check_status(cublasLtCreate(&device.handle), "cublasLtCreate", job);
  return device;
}

// Handles may be used by several threads at once. They are never destroyed: at process exit the
// driver may already be gone.
const Device& current_device(const Matmul& job) {
  static std::mutex mutex;
  static auto& devices = *std::make_unique<std::map<int, Device>>().release();
  int ordinal = 0;
  check(cudaGetDevice(&ordinal), "matmul: cudaGetDevice");
  const std::lock_guard lock(mutex);
  auto found = devices.find(ordinal);
  if (found == devices.end()) {
    found = devices.emplace(ordinal, open_device(ordinal, job)).first;
  }
  return found->second;
}

cudaDataType_t data_type(Type type) {
  switch (type) {
    case Type::BFloat16:
      return CUDA_R_16BF;
    case Type::Half:
      return CUDA_R_16F;
    case Type::Float:
      break;
  }
  return CUDA_R_32F;
}

/// Everything that cublasLt's proposals depend on, as numbers in the order of Product::key().
using Key = std::array<int64_t, 17>;

struct KeyHash {
  size_t operator()(const Key& key) const noexcept {
    size_t hash = 0;
    for (const int64_t number : key) {
      hash = (hash ^ static_cast<size_t>(number)) * 0x9E3779B97F4A7C15ULL;
      hash ^= hash >> 32;
    }
    return hash;
  }
};

/// The product in cublasLt's terms.
class Product {
 public:
  Product(const Matmul& job, const Device& device) : job_(job), device_(device) {
    check_status(
        cublasLtMatmulDescInit(
            &operation_, is_tf32() ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "operation",
        job);
    set(CUBLASLT_MATMUL_DESC_TRANSA, job.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, job.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (job.bias != nullptr) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, job.bias);
    }
    init(a_, job.in, job.m, job.k, job.lda, job.transpose_a);
    init(b_, job.in, job.k, job.n, job.ldb, job.transpose_b);
    init(c_, job.out, job.m, job.n, reads_c() ? job.ldc : job.ldd, /*is_transposed=*/false);
    init(d_, job.out, job.m, job.n, job.ldd, /*is_transposed=*/false);
  }

  cublasStatus_t run(const cublasLtMatmulAlgo_t& algorithm, cudaStream_t stream) {
    return cublasLtMatmul(device_.handle,
                          &operation_,
                          &job_.alpha,
                          job_.b,
                          &b_,
                          job_.a,
                          &a_,
                          &job_.beta,
                          reads_c() ? job_.c : job_.d,
                          &c_,
                          job_.d,
                          &d_,
                          &algorithm,
                          job_.workspace,
                          job_.workspace_bytes,
                          stream);
  }

  cublasLtMatmulAlgo_t proposal() {
    auto preference = preferences();
    cublasLtMatmulHeuristicResult_t result{};
    int count = 0;
    const auto status = cublasLtMatmulAlgoGetHeuristic(device_.handle,
                                                       &operation_,
                                                       &b_,
                                                       &a_,
                                                       &c_,
                                                       &d_,
                                                       &preference,
                                                       /*requestedAlgoCount=*/1,
                                                       &result,
                                                       &count);
    check_status(status, "no algorithm", job_);
    check_status(count == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : result.state, "no algorithm", job_);
    return result.algo;
  }

  Key key() const {
    const auto [a, b, c, d] = alignments();
    return {device_.ordinal,
            static_cast<int64_t>(job_.in),
            static_cast<int64_t>(job_.out),
            job_.transpose_a,
            job_.transpose_b,
            is_tf32(),
            reads_c(),
            job_.bias != nullptr,
            job_.m,
            job_.n,
            job_.k,
            job_.lda,
            job_.ldb,
            reads_c() ? job_.ldc : job_.ldd,
            job_.ldd,
            ((int64_t{a} * 1024 + b) * 1024 + c) * 1024 + d,
            static_cast<int64_t>(job_.workspace_bytes)};
  }

  bool reads_c() const { return job_.beta != 0.0f; }
  bool is_tf32() const { return job_.allow_tf32 && job_.in == Type::Float; }

 private:
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    check_status(cublasLtMatmulDescSetAttribute(&operation_, attribute, &value, sizeof(value)),
                 "operation",
                 job_);
  }

  // A matrix used as (rows, columns): it, or its transpose, is stored row by row.
  void init(cublasLtMatrixLayoutOpaque_t& layout,
            Type type,
            int64_t rows,
            int64_t columns,
            int64_t stride,
            bool is_transposed) {
    const auto adjacent = static_cast<uint64_t>(is_transposed ? rows : columns);
    const auto apart = static_cast<uint64_t>(is_transposed ? columns : rows);
    check_status(cublasLtMatrixLayoutInit(&layout, data_type(type), adjacent, apart, stride),
                 "layout",
                 job_);
  }

  // Alignments of a, b, c and d in bytes; more than 256 makes no difference. cublasLt has no
  // preference for the bias, so it counts with d.
  std::array<uint32_t, 4> alignments() const {
    const auto alignment = [](const void* first, const void* second = nullptr) {
      const auto bits = reinterpret_cast<uintptr_t>(first) | reinterpret_cast<uintptr_t>(second);
      return static_cast<uint32_t>(bits == 0 ? 256 : std::min<uintptr_t>(256, bits & (~bits + 1)));
    };
    const void* c = reads_c() ? job_.c : job_.d;
    return {alignment(job_.a), alignment(job_.b), alignment(c), alignment(job_.d, job_.bias)};
  }

  cublasLtMatmulPreferenceOpaque_t preferences() const {
    cublasLtMatmulPreferenceOpaque_t result{};
    check_status(cublasLtMatmulPreferenceInit(&result), "preference", job_);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      check_status(cublasLtMatmulPreferenceSetAttribute(&result, attribute, &value, sizeof(value)),
                   "preference",
                   job_);
    };
    // If k is split, partial sums are added as float32, not in the type of d.
    const uint32_t reductions = job_.out == Type::Float ? CUBLASLT_REDUCTION_SCHEME_MASK
                                                        : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const auto [a, b, c, d] = alignments();
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{job_.workspace_bytes});
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, uint32_t{b});
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, uint32_t{a});
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, uint32_t{c});
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, uint32_t{d});
    return result;
  }

  const Matmul& job_;
  const Device& device_;
  cublasLtMatmulDescOpaque_t operation_;
  cublasLtMatrixLayoutOpaque_t a_, b_, c_, d_;
};

void check_job(const Matmul& job) {
  const bool has_types = job.out == job.in || job.out == Type::Float;
  const bool has_c = job.beta == 0.0f || job.c != nullptr;
  if (job.k <= 0 || !has_types || !has_c) {
    check_status(CUBLAS_STATUS_INVALID_VALUE, "k, types or c", job);
  }
}

// The cache is never destroyed, since streams may outlive static objects.
cublasLtMatmulAlgo_t algorithm_for(Product& product) {
  static std::mutex mutex;
  static auto& known =
      *std::make_unique<std::unordered_map<Key, cublasLtMatmulAlgo_t, KeyHash>>().release();
  const auto key = product.key();
  const std::lock_guard lock(mutex);
  auto found = known.find(key);
  if (found == known.end()) {
    found = known.emplace(key, product.proposal()).first;
  }
  return found->second;
}

}  // namespace

void launch(const Matmul& job, cudaStream_t stream) {
  if (job.m <= 0 || job.n <= 0) {
    return;
  }
  check_job(job);
  Product product(job, current_device(job));
  check_status(product.run(algorithm_for(product), stream), "product", job);
}

}  // namespace reprise::cuda
