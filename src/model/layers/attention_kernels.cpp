#include <reprise/model/attention_kernels.h>
#include <reprise/model/config.h>

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <dlfcn.h>

#include <cstdlib>
#include <optional>
#include <vector>

namespace reprise {

namespace {

void set_attention_order(at::SDPBackend first, at::SDPBackend second) {
  std::vector<int64_t> order;
  for (const auto backend : {first,
                             second,
                             at::SDPBackend::efficient_attention,
                             at::SDPBackend::math,
                             at::SDPBackend::overrideable}) {
    order.push_back(static_cast<int64_t>(backend));
  }
  at::globalContext().setSDPPriorityOrder(order);
}

// Asks the driver, which every machine with a GPU has: this library does not link CUDA.
int major_capability() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) {
    return 0;
  }
  constexpr int kMajor = 75;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto attribute =
      reinterpret_cast<int (*)(int*, int, int)>(dlsym(driver, "cuDeviceGetAttribute"));
  int major = 0;
  const bool is_known = init != nullptr && attribute != nullptr && init(0) == 0 &&
                        attribute(&major, kMajor, /*device=*/0) == 0;
  return is_known ? major : 0;
}

}  // namespace

AttentionKernel parse_attention_kernel(const std::string& name) {
  if (name == "flash") {
    return AttentionKernel::Flash;
  }
  if (name == "cudnn") {
    return AttentionKernel::Cudnn;
  }
  TORCH_CHECK(name == "math", "[attention] expected flash, cudnn or math, found \"", name, "\"");
  return AttentionKernel::Math;
}

void choose_kernels(const KernelChoice& choice) {
  auto& context = at::globalContext();
  const bool is_cudnn = choice.attention == AttentionKernel::Cudnn;
  TORCH_CHECK(!is_cudnn || !(choice.is_deterministic || context.deterministicAlgorithms()),
              "[attention] expected flash or math in deterministic mode, found cudnn, whose "
              "backward is not deterministic");
  if (choice.is_deterministic) {
    setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
    context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  }
  const bool is_fused = choice.attention != AttentionKernel::Math;
  context.setSDPUseFlash(is_fused);
  context.setSDPUseMemEfficient(is_fused);
  context.setSDPUseCuDNN(is_cudnn);
  context.setSDPUseMath(true);
  if (is_cudnn) {
    set_attention_order(at::SDPBackend::cudnn_attention, at::SDPBackend::flash_attention);
  } else {
    set_attention_order(at::SDPBackend::flash_attention, at::SDPBackend::cudnn_attention);
  }
}

bool has_shaped_scores(const ModelConfig& config) {
  return config.attention_softcap > 0 || config.alibi.has_value();
}

std::string served_attention(const AttentionShape& shape, const at::TensorOptions& options) {
  const auto heads = [&](int64_t count) {
    return at::empty({1, count, shape.length, shape.head_dim}, options).requires_grad_();
  };
  const auto choice = at::_fused_sdp_choice(heads(shape.heads),
                                            heads(shape.kv_heads),
                                            heads(shape.kv_heads),
                                            /*attn_mask=*/{},
                                            shape.dropout,
                                            /*is_causal=*/true,
                                            /*scale=*/std::nullopt,
                                            /*enable_gqa=*/shape.heads != shape.kv_heads);
  const std::vector<std::string> names{"math", "flash", "efficient", "cudnn", "overrideable"};
  return choice < 0 ? "none" : names.at(static_cast<size_t>(choice));
}

int gpu_generation() {
  const bool has_gpu =
      at::globalContext().hasCUDA() && at::detail::getCUDAHooks().deviceCount() > 0;
  return has_gpu ? major_capability() : 0;
}

}  // namespace reprise
