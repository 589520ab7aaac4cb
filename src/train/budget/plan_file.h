// Memory plans as a file, so that a run can reuse the plans of an earlier one:
//
//   {"format": "reprise-memory-plan", "version": 1, "fingerprint": "...", "model": {...},
//    "device": "cuda", "budget_bytes": 6442450944, "budget_of": "activations",
//    "entries": [{"key": {"rows": 8, "length": 2048}, "peak_bytes": ..., "extra_ms": ...,
//                 "regions": [{"names": ["layers.0", "layers.1"], "plain": true},
//                             {"names": ["layers.2"],
//                              "ops": [{"name": "aten::mm", "call": 1, "decision": "keep"}]}]}]}
//
// Default values of RegionDecision are left out, and neighbours with the same decision are written
// once. Decisions are checked against the step when they are applied (DecisionsGuard), so a file
// for another step is an error and never changes a result.
#pragma once

#include <reprise/export.h>
#include <reprise/io/json.h>
#include <reprise/region_decision.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace reprise {

/// The plan for steps of one shape.
struct PlanEntry {
  Json key = Json::object();  ///< identifies the shape; defined by the caller
  int64_t peak_bytes = 0;     ///< predicted
  double extra_ms = 0;        ///< predicted
  std::vector<RegionDecision> decisions;

  bool operator==(const PlanEntry&) const = default;
};

struct PlanFile {
  std::string fingerprint;      ///< of everything else that plans depend on; defined by the caller
  Json model = Json::object();  ///< for the reader: family, layers, parameters, ...
  std::string device;
  int64_t budget_bytes = 0;
  bool is_total = false;     ///< the budget is for everything on the device, not for activations
  int64_t host_bytes = 0;    ///< host memory that plans may use
  bool allow_lossy = false;  ///< plans may use lossy compression
  std::vector<PlanEntry> entries;

  bool operator==(const PlanFile&) const = default;
};

/// Writes the file atomically.
REPRISE_API void write_plan(const std::filesystem::path& path, const PlanFile& plan);

/// If the file is not valid, throws c10::Error that names the file, the field and its value.
REPRISE_API PlanFile read_plan(const std::filesystem::path& path);

}  // namespace reprise
