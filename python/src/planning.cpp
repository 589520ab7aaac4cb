// Plans: a byte budget for a step.
#include "errors.h"
#include "module.h"

#include <reprise/memory.h>
#include <reprise/plan.h>

#include <torch/csrc/Device.h>

#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace reprise::python {
namespace {

MemoryPlan make_plan(const py::object& step,
                     const py::object& device,
                     int64_t budget,
                     int64_t host_budget,
                     bool allow_lossy,
                     bool counts_gradients) {
  const auto made = py::module_::import("torch").attr("device")(device);
  const c10::Device on = reinterpret_cast<THPDevice*>(made.ptr())->device;
  if (on.is_cpu()) {
    track_cpu_memory();
  }
  const auto run = [&step] {
    const py::gil_scoped_acquire gil;
    PyObject* result = PyObject_CallNoArgs(step.ptr());
    if (result == nullptr) {
      throw taken_error();
    }
    Py_DECREF(result);
  };
  const py::gil_scoped_release others;
  return plan(run,
              on,
              {.budget = budget,
               .host_budget = host_budget,
               .allow_lossy = allow_lossy,
               .counts_gradients = counts_gradients});
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
    }
  }

 private:
  const MemoryPlan plan_;
  std::optional<PlanGuard> guard_;
};

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
      .def("describe", &MemoryPlan::describe)
      .def("apply", [](const MemoryPlan& plan) { return std::make_unique<PlanScope>(plan); });
  py::class_<PlanScope>(module, "PlanScope")
      .def("__enter__", &PlanScope::enter)
      .def("__exit__", &PlanScope::exit);
  module.def("plan",
             &make_plan,
             py::arg("step"),
             py::arg("device"),
             py::kw_only(),
             py::arg("budget"),
             py::arg("host_budget") = 0,
             py::arg("allow_lossy") = false,
             py::arg("counts_gradients") = false);
}

}  // namespace reprise::python
