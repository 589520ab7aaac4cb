// The extension module reprise._report: pages about plans. It alone needs Reprise::train, so it is
// loaded when a page is written.
#include <reprise/plan.h>
#include <reprise/report/memory_report.h>

#include <torch/csrc/jit/python/pybind_utils.h>

#include <pybind11/stl.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace {

void write_page(const reprise::MemoryPlan& plan,
                const std::string& path,
                std::string title,
                std::string model,
                std::string device,
                std::vector<int64_t> measured_peaks) {
  auto report = reprise::memory_report(plan);
  report.title = std::move(title);
  report.model = std::move(model);
  report.device = std::move(device);
  report.measured_peaks = std::move(measured_peaks);
  reprise::write_memory_report(path, report);
}

}  // namespace

PYBIND11_MODULE(_report, module) {
  module.def("write_page", &write_page);
}
