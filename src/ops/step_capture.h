// The part of StepGraph that needs CUDA. libreprise_cuda provides it when it is opened, so that no
// other library links CUDA.
#pragma once

#include <reprise/export.h>

#include <c10/core/Device.h>

#include <functional>
#include <memory>

namespace reprise::ops {

/// One CUDA graph on one device. Work runs on a stream of its own; the device is synchronised
/// before and after, so no other stream has to wait for it.
class REPRISE_API StepCapture {
 public:
  StepCapture() = default;
  virtual ~StepCapture();
  StepCapture(const StepCapture&) = delete;
  StepCapture& operator=(const StepCapture&) = delete;

  virtual void warm_up(const std::function<void()>& work) = 0;
  /// Captures the work without running it. If it throws, the capture is abandoned and eager work
  /// can go on as before.
  virtual void record(const std::function<void()>& work) = 0;
  /// Runs the graph on the current stream, asynchronously.
  virtual void replay() = 0;
};

using MakeStepCapture = std::unique_ptr<StepCapture> (*)(c10::Device device);

/// Called once, while the library that implements it is opened.
REPRISE_API void provide_step_capture(MakeStepCapture make);

}  // namespace reprise::ops
