// What two runs of the same training must have in common.
#pragma once

#include <reprise/train/metrics_file.h>

#include <filesystem>
#include <vector>

namespace reprise::testing {

/// The records of metrics.jsonl without what is measured, not computed.
inline std::vector<Json> computed_metrics(const std::filesystem::path& output) {
  auto records = MetricsFile::read(output / "metrics.jsonl");
  for (Json& record : records) {
    for (const char* measured : {"step_ms",
                                 "eval_ms",
                                 "recompute_ms",
                                 "peak_bytes",
                                 "activation_bytes",
                                 "estimated_activation_bytes",
                                 "memory"}) {
      record.erase(measured);
    }
  }
  return records;
}

}  // namespace reprise::testing
