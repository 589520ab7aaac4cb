// What StepGraph asks of CUDA. libreprise_cuda provides it when it is opened, so that nothing else
// links CUDA.
#pragma once

#include <reprise/export.h>

#include <c10/core/Device.h>

#include <functional>
#include <memory>

namespace reprise::ops {

/// One graph of one device. Work runs on its own stream, and the device is waited for before and
/// after, so other streams need not be told.
class REPRISE_API StepCapture {
 public:
  StepCapture() = default;
  virtual ~StepCapture();
  StepCapture(const StepCapture&) = delete;
  StepCapture& operator=(const StepCapture&) = delete;

  virtual void warm_up(const std::function<void()>& work) = 0;
  /// Work is noted, not done. If it throws, nothing is left of it and eager work goes on as before.
  virtual void record(const std::function<void()>& work) = 0;
  /// On the current stream, without waiting.
  virtual void replay() = 0;
};

using MakeStepCapture = std::unique_ptr<StepCapture> (*)(c10::Device device);

/// To be called once, while the library that has it is opened.
REPRISE_API void provide_step_capture(MakeStepCapture make);

}  // namespace reprise::ops
