// Memory plans as a file, so that a run need not plan again what was planned before:
//
//   {"format": "reprise-memory-plan", "version": 1, "fingerprint": "...", "model": {...},
//    "device": "cuda", "budget_bytes": 6442450944, "budget_of": "activations",
//    "entries": [{"key": {"rows": 8, "length": 2048}, "peak_bytes": ..., "extra_ms": ...,
//                 "regions": [{"names": ["layers.0", "layers.1"], "plain": true},
//                             {"names": ["layers.2"],
//                              "ops": [{"name": "aten::mm", "call": 1, "decision": "keep"}]}]}]}
//
// Values that are as RegionDecision has them by default are left out; neighbours that decide the
// same are written once. What a plan decides is checked against the step when it is in force
// (PlanGuard): a file that is not for this step is an error there, never another result.
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
  Json key = Json::object();  ///< what tells such steps from others; the caller's own
  int64_t peak_bytes = 0;     ///< predicted
  double extra_ms = 0;        ///< predicted
  std::vector<RegionDecision> decisions;

  bool operator==(const PlanEntry&) const = default;
};

struct PlanFile {
  std::string fingerprint;      ///< of all that a plan depends on beside the key; the caller's own
  Json model = Json::object();  ///< for people: family, layers, parameters, ...
  std::string device;
  int64_t budget_bytes = 0;
  bool is_total = false;     ///< the budget is of everything on the device, not of activations
  int64_t host_bytes = 0;    ///< of host memory that plans may use
  bool allow_lossy = false;  ///< plans may change bits
  std::vector<PlanEntry> entries;

  bool operator==(const PlanFile&) const = default;
};

/// Writes the file whole or not at all.
REPRISE_API void write_plan(const std::filesystem::path& path, const PlanFile& plan);

/// Throws c10::Error, naming the file, the field and what stands there, if it is not such a file.
REPRISE_API PlanFile read_plan(const std::filesystem::path& path);

}  // namespace reprise
