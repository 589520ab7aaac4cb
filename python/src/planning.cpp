// Plans: a byte budget for a step.
#include "errors.h"
#include "module.h"

#include <reprise/memory.h>
#include <reprise/plan.h>

#include <torch/csrc/Device.h>

#include <c10/util/Exception.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise::python {
namespace {

c10::Device planned_device(const py::object& device) {
  const auto made = py::module_::import("torch").attr("device")(device);
  const c10::Device on = reinterpret_cast<THPDevice*>(made.ptr())->device;
  if (on.is_cpu()) {
    track_cpu_memory();
  }
  return on;
}

PlanOptions plan_options(int64_t budget,
                         int64_t host_budget,
                         bool allow_lossy,
                         bool counts_gradients,
                         bool is_enforced,
                         int64_t reserve) {
  return {.budget = budget,
          .host_budget = host_budget,
          .allow_lossy = allow_lossy,
          .counts_gradients = counts_gradients,
          .is_enforced = is_enforced,
          .reserve = reserve};
}

MemoryPlan make_plan(const py::object& step, const py::object& device, const PlanOptions& options) {
  const c10::Device on = planned_device(device);
  const auto run = [&step] {
    const py::gil_scoped_acquire gil;
    PyObject* result = PyObject_CallNoArgs(step.ptr());
    if (result == nullptr) {
      throw taken_error();
    }
    Py_DECREF(result);
  };
  const py::gil_scoped_release others;
  return plan(run, on, options);
}

/// For `with plan.apply():`. A step that raises is not compared with the plan.
class PlanScope {
 public:
  explicit PlanScope(MemoryPlan plan) : plan_(std::move(plan)) {}
  void enter() { guard_.emplace(plan_); }
  void exit(const py::object& type, const py::object& /*value*/, const py::object& /*traceback*/) {
    struct End {
      explicit End(std::optional<PlanGuard>& guard) : guard_(guard) {}
      ~End() { guard_.reset(); }
      End(const End&) = delete;
      End& operator=(const End&) = delete;
      std::optional<PlanGuard>& guard_;
    };
    const End end(guard_);
    if (type.is_none()) {
      guard_->finish();
      peak_ = guard_->peak_bytes();
    }
  }
  int64_t peak_bytes() const { return peak_; }

 private:
  const MemoryPlan plan_;
  std::optional<PlanGuard> guard_;
  int64_t peak_ = 0;
};

/// A step that is recorded as it runs. Without plan() it is forgotten when this is deleted.
class Recording {
 public:
  explicit Recording(const py::object& device)
      : recording_(std::make_unique<StepRecording>(planned_device(device))) {}
  MemoryPlan plan(const PlanOptions& options) {
    TORCH_CHECK(recording_ != nullptr, "[plan] this step was planned or forgotten already.");
    const auto recording = std::move(recording_);
    const py::gil_scoped_release others;
    return recording->plan(options);
  }
  void forget() { recording_.reset(); }

 private:
  std::unique_ptr<StepRecording> recording_;
};

size_t recomputed_regions(const MemoryPlan& plan) {
  return static_cast<size_t>(std::count_if(
      plan.decisions().begin(), plan.decisions().end(), [](const RegionDecision& decision) {
        return !decision.is_plain;
      }));
}

std::vector<std::pair<int64_t, double>> curve_of(const MemoryPlan& plan) {
  std::vector<std::pair<int64_t, double>> points;
  for (const auto& point : plan.curve()) {
    points.emplace_back(point.peak_bytes, point.extra_ms);
  }
  return points;
}

}  // namespace

void add_planning(py::module_& module) {
  py::class_<MemoryPlan>(module, "MemoryPlan")
      .def_property_readonly("budget", &MemoryPlan::budget)
      .def_property_readonly("peak_bytes", &MemoryPlan::peak_bytes)
      .def_property_readonly("host_bytes", &MemoryPlan::host_bytes)
      .def_property_readonly("extra_ms", &MemoryPlan::extra_ms)
      .def_property_readonly("curve", &curve_of)
      .def("with_budget", &MemoryPlan::with_budget, py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("regions",
                             [](const MemoryPlan& plan) { return plan.decisions().size(); })
      .def_property_readonly("recomputed_regions", &recomputed_regions)
      .def("describe", &MemoryPlan::describe)
      .def("for_similar_steps", &MemoryPlan::for_similar_steps)
      .def_static("between", &MemoryPlan::between, py::call_guard<py::gil_scoped_release>())
      .def("apply", [](const MemoryPlan& plan) { return std::make_unique<PlanScope>(plan); });
  py::class_<PlanScope>(module, "PlanScope")
      .def("__enter__", &PlanScope::enter)
      .def("__exit__", &PlanScope::exit)
      .def_property_readonly("peak_bytes", &PlanScope::peak_bytes);
  py::class_<PlanOptions>(module, "PlanOptions")
      .def(py::init(&plan_options),
           py::kw_only(),
           py::arg("budget"),
           py::arg("host_budget") = 0,
           py::arg("allow_lossy") = false,
           py::arg("counts_gradients") = false,
           py::arg("is_enforced") = false,
           py::arg("reserve") = 0)
      .def_readonly("budget", &PlanOptions::budget);
  module.def("plan", &make_plan, py::arg("step"), py::arg("device"), py::arg("options"));
  py::class_<Recording>(module, "StepRecording")
      .def(py::init<const py::object&>(), py::arg("device"))
      .def("plan", &Recording::plan, py::arg("options"))
      .def("forget", &Recording::forget);
}

}  // namespace reprise::python
