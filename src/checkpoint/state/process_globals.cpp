#include "checkpoint/state/process_globals.h"

#include "checkpoint/private_field.h"

#include <ATen/Parallel.h>
#include <c10/core/DefaultDtype.h>
#include <c10/util/StringUtil.h>

#include <vector>

namespace reprise::detail {

struct PrecisionTable {
  using Owner = at::Context;
};
const auto& private_field(PrecisionTable, const at::Context& context);
template struct PrivateField<&at::Context::fp32_precision, PrecisionTable>;

namespace {

constexpr std::array<const char*, 17> kSwitchNames{"deterministic algorithms",
                                                   "deterministic algorithms warn-only",
                                                   "deterministic cuDNN",
                                                   "deterministic oneDNN",
                                                   "cuDNN",
                                                   "cuDNN benchmark",
                                                   "oneDNN",
                                                   "flash attention",
                                                   "flash attention 3",
                                                   "memory-efficient attention",
                                                   "math attention",
                                                   "cuDNN attention",
                                                   "overrideable attention",
                                                   "reduced-precision math attention",
                                                   "fp16 accumulation in cuBLAS",
                                                   "fp16 reduction on the CPU",
                                                   "NNPACK"};

constexpr std::array<const char*, 6> kPrecisionNames{"oneDNN matmul",
                                                     "oneDNN convolution",
                                                     "oneDNN recurrent layer",
                                                     "CUDA matmul",
                                                     "CUDA convolution",
                                                     "CUDA recurrent layer"};

using Precisions = std::array<at::Float32Precision, 6>;

Precisions look_up_precisions() {
  static const bool has_cuda = at::globalContext().hasCUDA();
  using enum at::Float32Op;
  Precisions precisions{};
  size_t next = 0;
  for (const auto backend : {at::Float32Backend::MKLDNN, at::Float32Backend::CUDA}) {
    for (const auto op : {MATMUL, CONV, RNN}) {
      precisions[next++] = backend == at::Float32Backend::CUDA && !has_cuda
                               ? at::Float32Precision::NONE
                               : at::globalContext().float32Precision(backend, op);
    }
  }
  return precisions;
}

/// A setting is looked up in a table, several times if it is inherited, which takes longer than all
/// others together. So they are looked up again only when an entry of the table has changed.
const Precisions& float32_precisions() {
  struct Known {
    Known() {
      for (const auto& [key, precision] : private_field(PrecisionTable{}, at::globalContext())) {
        entries.push_back(&precision);
        seen.push_back(precision);
      }
    }
    std::vector<const at::Float32Precision*> entries;
    std::vector<at::Float32Precision> seen;
    Precisions precisions = look_up_precisions();
  };
  thread_local Known known;
  bool is_same =
      known.entries.size() == private_field(PrecisionTable{}, at::globalContext()).size();
  for (size_t i = 0; i < known.entries.size(); ++i) {
    is_same = is_same && known.seen[i] == *known.entries[i];
  }
  if (!is_same) {
    known = Known();
  }
  return known.precisions;
}

}  // namespace

ProcessGlobals::ProcessGlobals()
    : default_dtype_(c10::get_default_dtype_as_scalartype()), threads_(at::get_num_threads()) {
  const auto& context = at::globalContext();
  switches_ = {context.deterministicAlgorithms(),
               context.deterministicAlgorithmsWarnOnly(),
               context.deterministicCuDNN(),
               context.deterministicMkldnn(),
               context.userEnabledCuDNN(),
               context.benchmarkCuDNN(),
               context.userEnabledMkldnn(),
               context.userEnabledFlashSDP(),
               context.userEnabledFA3SDP(),
               context.userEnabledMemEfficientSDP(),
               context.userEnabledMathSDP(),
               context.userEnabledCuDNNSDP(),
               context.userEnabledOverrideableSDP(),
               context.allowFP16BF16ReductionMathSDP(),
               context.allowFP16AccumulationCuBLAS(),
               context.allowFP16ReductionCPU(),
               context.userEnabledNNPACK()};
  cublas_reduction_ = {context.allowFP16ReductionCuBLAS(), context.allowBF16ReductionCuBLAS()};
  float32_precision_ = float32_precisions();
}

std::string ProcessGlobals::difference(const ProcessGlobals& now) const {
  std::string text;
  const auto add = [&text](const auto&... parts) {
    text += text.empty() ? "" : "; ";
    text += c10::str(parts...);
  };
  if (default_dtype_ != now.default_dtype_) {
    add("default dtype: ", default_dtype_, " in forward, ", now.default_dtype_, " now");
  }
  if (threads_ != now.threads_) {
    add("number of threads: ", threads_, " in forward, ", now.threads_, " now");
  }
  for (size_t i = 0; i < switches_.size(); ++i) {
    if (switches_[i] != now.switches_[i]) {
      add(kSwitchNames[i], switches_[i] ? ": on in forward, off now" : ": off in forward, on now");
    }
  }
  if (cublas_reduction_ != now.cublas_reduction_) {
    add("reduced-precision reduction in cuBLAS: changed");
  }
  for (size_t i = 0; i < float32_precision_.size(); ++i) {
    if (float32_precision_[i] != now.float32_precision_[i]) {
      add(kPrecisionNames[i],
          " float32 precision: ",
          at::precision2str(float32_precision_[i]),
          " in forward, ",
          at::precision2str(now.float32_precision_[i]),
          " now");
    }
  }
  return text;
}

}  // namespace reprise::detail
