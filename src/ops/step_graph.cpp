#include <reprise/ops/step_graph.h>

#include "ops/step_capture.h"

#include <reprise/ops/cuda_kernels.h>
#include <reprise/options.h>

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace reprise {

namespace ops {

namespace {

MakeStepCapture make_step_capture = nullptr;

}  // namespace

StepCapture::~StepCapture() = default;

void provide_step_capture(MakeStepCapture make) {
  make_step_capture = make;
}

}  // namespace ops

struct StepGraph::State {
  std::unique_ptr<ops::StepCapture> capture;
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> gradients;  // one per parameter; undefined where the step gave none
  at::Tensor loss;
};

namespace {

c10::Device device_of(const std::vector<at::Tensor>& parameters) {
  TORCH_CHECK(!parameters.empty(),
              "[step_graph] expected the parameters that the step gives gradients to, got none");
  for (const auto& parameter : parameters) {
    TORCH_CHECK(parameter.is_cuda() && parameter.device() == parameters.front().device(),
                "[step_graph] expected all parameters on one CUDA device, found ",
                parameters.front().device(),
                " and ",
                parameter.device(),
                ". Move the model there first");
  }
  return parameters.front().device();
}

void drop_gradients(const std::vector<at::Tensor>& parameters) {
  for (const auto& parameter : parameters) {
    parameter.mutable_grad() = at::Tensor();
  }
}

// Adds to an error that it happened during recording and, unless its message already says what to
// do, the usual causes.
void explain(c10::Error& error) {
  const bool tells = dynamic_cast<const CheckpointError*>(&error) != nullptr ||
                     dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr;
  constexpr const char* kCauses =
      ". What waits for the device or leaves its stream cannot be recorded: look for .item(), "
      ".cpu(), nonzero, copies from the host, heads whose targets the host does not know "
      "(loss/targets.h), attention masks without document_starts, and a loss of an earlier step "
      "that was not detached";
  error.add_context(c10::str("while recording a step as a CUDA graph", tells ? "" : kCauses));
}

void check_loss(const at::Tensor& loss, c10::Device device) {
  TORCH_CHECK(loss.defined() && loss.dim() == 0 && loss.device() == device,
              "[step_graph] expected the step to return its loss, a scalar on ",
              device,
              ", got ",
              loss.defined() ? c10::str(loss.toString(), loss.sizes(), " on ", loss.device())
                             : "an undefined tensor");
}

}  // namespace

StepGraph::StepGraph(std::unique_ptr<State> state) : state_(std::move(state)) {}
StepGraph::StepGraph(StepGraph&&) noexcept = default;
StepGraph& StepGraph::operator=(StepGraph&&) noexcept = default;
StepGraph::~StepGraph() = default;

StepGraph StepGraph::record(const std::function<at::Tensor()>& step,
                            std::vector<at::Tensor> parameters,
                            const StepGraphOptions& options) {
  TORCH_CHECK(load_cuda_kernels(),
              "[step_graph] a step can be recorded on a GPU with libreprise_cuda: ",
              missing_cuda_kernels());
  TORCH_CHECK(options.warmup >= 1,
              "[step_graph] expected at least one run before the recording, got ",
              options.warmup);
  const auto device = device_of(parameters);
  TORCH_INTERNAL_ASSERT(ops::make_step_capture != nullptr);
  auto state = std::make_unique<State>();
  state->capture = ops::make_step_capture(device);
  state->parameters = std::move(parameters);
  auto& own = *state;
  bool is_recording = false;
  try {
    for (int64_t i = 0; i < options.warmup; ++i) {
      drop_gradients(own.parameters);
      own.capture->warm_up([&] { check_loss(step(), device); });
    }
    // Without gradients autograd writes them during the recording instead of adding to them.
    drop_gradients(own.parameters);
    is_recording = true;
    own.capture->record([&] { own.loss = step().detach(); });
  } catch (c10::Error& error) {
    drop_gradients(own.parameters);
    if (is_recording) {
      explain(error);
    }
    throw;
  } catch (...) {
    drop_gradients(own.parameters);
    throw;
  }
  for (const auto& parameter : own.parameters) {
    own.gradients.push_back(parameter.grad());
  }
  drop_gradients(own.parameters);  // recording computed no values
  TORCH_CHECK(std::any_of(own.gradients.begin(),
                          own.gradients.end(),
                          [](const at::Tensor& gradient) { return gradient.defined(); }),
              "[step_graph] the step gave no parameter a gradient. It must call backward()");
  return StepGraph(std::move(state));
}

at::Tensor StepGraph::replay() {
  const auto& [capture, parameters, gradients, loss] = *state_;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& present = parameters[i].grad();
    // zero_grad(false) leaves an alias of the recorded gradient.
    TORCH_CHECK(!present.defined() || (gradients[i].defined() && present.is_alias_of(gradients[i])),
                "[step_graph] parameter ",
                i,
                " has a gradient that no replay gave it, and replay would drop it: gradients of "
                "recorded steps are written, not added to. Drop them (zero_grad) first");
  }
  capture->replay();
  for (size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].mutable_grad() = gradients[i];
  }
  return loss;
}

}  // namespace reprise
