// StepGraph's capture by LibTorch's CUDAGraph, which handles LibTorch's allocator and generators.
//
// Note [Capture mode]
// Backward runs on autograd's own thread; its kernels are captured because they are launched on the
// stream that is captured. In CUDA's thread-local mode that thread could do what cannot be captured
// (synchronise, allocate by itself), and the replay would silently miss it. So the mode is global,
// as in torch.cuda.graph: such a call is an error in any thread. LibTorch's allocator exempts its
// own allocations.
#include "checkpoint/torch_versions.h"
#include "ops/step_capture.h"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

namespace reprise::cuda {

namespace {

class Graph final : public at::cuda::CUDAGraph {
 public:
  /// Ends a capture that failed. If CUDA has invalidated the capture, capture_end() throws before
  /// it tells the allocator and the generators, which would then count all later work to the
  /// capture.
  void abandon() noexcept {
    try {
      capture_end();
      return;
    } catch (...) {  // the caller's exception in flight says more
    }
#if REPRISE_CAPTURE_HOLDS_GENERATORS
    for (const auto& [generator, increment] : captured_generator_states_) {
      generator->capturing_ = false;
    }
#endif
    try {
#if REPRISE_CAPTURE_HOLDS_ALLOCATORS
      c10::cuda::CUDACachingAllocator::endAllocateToPool(capture_dev_, mempool_id_);
      capture_ended_ = true;  // so that the destructor releases the pool
      at::getHostAllocator(at::kCUDA)->end_allocate_to_pool(mempool_id_);
#else
      reset();
#endif
    } catch (...) {  // capture_end() had already done it
    }
  }
};

class CudaStepCapture final : public ops::StepCapture {
 public:
  explicit CudaStepCapture(c10::Device device)
      : stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index())) {
    // Memory cached for other streams is of no use to this one.
    const c10::cuda::CUDAGuard guard(device);
    c10::cuda::device_synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();
  }

  void warm_up(const std::function<void()>& work) override {
    const c10::cuda::CUDAStreamGuard guard(stream_);
    c10::cuda::device_synchronize();
    work();
    c10::cuda::device_synchronize();
  }

  void record(const std::function<void()>& work) override {
    const c10::cuda::CUDAStreamGuard guard(stream_);
    c10::cuda::device_synchronize();
    // Nor is what earlier runs left cached, for the graph's own memory pool.
    c10::cuda::CUDACachingAllocator::emptyCache();
    try {
      graph_.capture_begin(/*pool=*/{0, 0}, cudaStreamCaptureModeGlobal);
      work();
      graph_.capture_end();
    } catch (...) {
      graph_.abandon();
      throw;
    }
  }

  void replay() override { graph_.replay(); }

 private:
  c10::cuda::CUDAStream stream_;
  Graph graph_;
};

std::unique_ptr<ops::StepCapture> make_step_capture(c10::Device device) {
  return std::make_unique<CudaStepCapture>(device);
}

[[maybe_unused]] const bool is_provided = [] {
  ops::provide_step_capture(make_step_capture);
  return true;
}();

}  // namespace

}  // namespace reprise::cuda
