// Statistics, peaks and live tensors.
#include "module.h"

#include <reprise/live_tensors.h>
#include <reprise/memory.h>
#include <reprise/named_range.h>
#include <reprise/offload.h>
#include <reprise/stats.h>

#include <torch/csrc/Device.h>

#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <utility>

namespace reprise::python {
namespace {

c10::Device device_of(const py::object& device) {
  const auto made = py::module_::import("torch").attr("device")(device);
  c10::Device result = reinterpret_cast<THPDevice*>(made.ptr())->device;
  if (result.is_cpu()) {
    track_cpu_memory();
  }
  return result;
}

py::dict dict_of(const RegionStats& stats) {
  py::dict dict;
  dict["entered"] = stats.entered;
  dict["recomputed"] = stats.recomputed;
  dict["early_stopped"] = stats.early_stopped;
  dict["ops_replayed"] = stats.ops_replayed;
  dict["ops_recomputed"] = stats.ops_recomputed;
  dict["tensors_dropped"] = stats.tensors_dropped;
  dict["bytes_dropped"] = stats.bytes_dropped;
  dict["bytes_kept"] = stats.bytes_kept;
  dict["bytes_unsaved"] = stats.bytes_unsaved;
  dict["bytes_offloaded"] = stats.bytes_offloaded;
  dict["bytes_fetched"] = stats.bytes_fetched;
  dict["bytes_compressed"] = stats.bytes_compressed;
  dict["bytes_compressed_to"] = stats.bytes_compressed_to;
  dict["bytes_not_moved"] = stats.bytes_not_moved;
  dict["recompute_ms"] = std::chrono::duration<double, std::milli>(stats.recompute_time).count();
  return dict;
}

py::dict stats() {
  const auto counted = checkpoint_stats();
  auto dict = dict_of(counted.total);
  py::dict regions;
  for (const auto& [name, region] : counted.regions) {
    regions[py::str(name)] = dict_of(region);
  }
  dict["regions"] = regions;
  return dict;
}

/// A C++ guard for `with`.
template <class Guard, class Argument>
class Scope {
 public:
  explicit Scope(Argument argument) : argument_(std::move(argument)) {}
  Scope& enter() {
    guard_.emplace(argument_);
    return *this;
  }
  void exit(const py::args& /*exception*/) { guard_.reset(); }

 private:
  const Argument argument_;
  std::optional<Guard> guard_;
};

/// A PeakTracker that can be read after its scope.
class Peak {
 public:
  explicit Peak(const py::object& device) : device_(device_of(device)) {}
  Peak& enter() {
    tracker_.emplace(device_);
    start_ = tracker_->start();
    return *this;
  }
  void exit(const py::args& /*exception*/) {
    peak_ = tracker_->peak();
    tracker_.reset();
  }
  int64_t start() const { return start_; }
  int64_t peak() const { return tracker_ ? tracker_->peak() : peak_; }
  int64_t extra() const { return peak() - start_; }

 private:
  const c10::Device device_;
  std::optional<PeakTracker> tracker_;
  int64_t start_ = 0;
  int64_t peak_ = 0;
};

class LiveTensorsScope {
 public:
  LiveTensorsScope& enter() {
    report_.emplace();
    return *this;
  }
  void exit(const py::args& /*exception*/) {
    text_ = report_->report();
    report_.reset();
  }
  std::string report(size_t lines) const { return report_ ? report_->report(lines) : text_; }

 private:
  std::optional<LiveTensorReport> report_;
  std::string text_;
};

}  // namespace

void add_memory(py::module_& module) {
  module.def("record_stats", &record_checkpoint_stats);
  module.def("stats", &stats);
  module.def("reset_stats", &reset_checkpoint_stats);
  module.def("track_cpu_memory", &track_cpu_memory);
  module.def("live_bytes", [](const py::object& device) { return live_bytes(device_of(device)); });
  module.def("peak_bytes", [](const py::object& device) { return peak_bytes(device_of(device)); });
  module.def("reset_peak_bytes",
             [](const py::object& device) { reset_peak_bytes(device_of(device)); });
  py::class_<Peak>(module, "PeakTracker")
      .def(py::init<const py::object&>(), py::arg("device"))
      .def("__enter__", &Peak::enter, py::return_value_policy::reference)
      .def("__exit__", &Peak::exit)
      .def_property_readonly("start", &Peak::start)
      .def_property_readonly("peak", &Peak::peak)
      .def_property_readonly("extra", &Peak::extra);
  using Range = Scope<NamedRange, std::string>;
  py::class_<Range>(module, "NamedRange")
      .def(py::init<std::string>(), py::arg("name"))
      .def("__enter__", &Range::enter, py::return_value_policy::reference)
      .def("__exit__", &Range::exit);
  py::class_<LiveTensorsScope>(module, "LiveTensorReport")
      .def(py::init<>())
      .def("__enter__", &LiveTensorsScope::enter, py::return_value_policy::reference)
      .def("__exit__", &LiveTensorsScope::exit)
      .def("report", &LiveTensorsScope::report, py::arg("lines") = 16);
  module.def(
      "set_offload_settings",
      [](int64_t host_budget, size_t prefetch) {
        set_offload_settings({.host_budget = host_budget, .prefetch = prefetch});
      },
      py::kw_only(),
      py::arg("host_budget") = 0,
      py::arg("prefetch") = 1);
  module.def("offload_use", [] {
    const auto use = offload_use();
    py::dict dict;
    dict["host_bytes"] = use.host_bytes;
    dict["host_bytes_in_use"] = use.host_bytes_in_use;
    dict["host_bytes_peak"] = use.host_bytes_peak;
    return dict;
  });
  module.def("trim_offload_memory", &trim_offload_memory);
}

}  // namespace reprise::python
