// StepGraph's capture by LibTorch's CUDAGraph, which knows LibTorch's allocator and generators.
//
// Note [Capture mode]
// Backward runs on autograd's own thread, whose kernels join the capture because they are launched
// on the stream that is captured. CUDA's thread-local mode would let that thread do what cannot be
// recorded (wait, allocate by itself), and the replay would miss it without a word. So the mode is
// global, as torch.cuda.graph has it: whatever thread tries, it is an error. LibTorch's allocator
// exempts its own allocations.
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
  /// Ends a capture that failed. When CUDA has given the capture up, capture_end() throws before it
  /// tells the allocator and the generators, and they would take all later work for a part of it.
  void abandon() noexcept {
    try {
      capture_end();
      return;
    } catch (...) {  // the caller has an exception in flight that tells more
    }
    for (const auto& [generator, increment] : captured_generator_states_) {
      generator->capturing_ = false;
    }
    try {
      c10::cuda::CUDACachingAllocator::endAllocateToPool(capture_dev_, mempool_id_);
      capture_ended_ = true;  // so that the destructor gives the pool back
      at::getHostAllocator(at::kCUDA)->end_allocate_to_pool(mempool_id_);
    } catch (...) {  // capture_end() came as far as this itself
    }
  }
};

class CudaStepCapture final : public ops::StepCapture {
 public:
  explicit CudaStepCapture(c10::Device device)
      : stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index())) {
    // What other streams hold free is of no use to this one.
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
    // Nor is what the runs before left free to the graph's own pool.
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
