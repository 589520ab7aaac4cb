// What two runs of the same training must have in common.
#pragma once

#include <reprise/report/metrics_file.h>

#include <filesystem>
#include <vector>

namespace reprise::testing {

/// The records of metrics.jsonl without what is measured, not computed.
inline std::vector<Json> computed_metrics(const std::filesystem::path& output) {
  auto records = MetricsFile::read(output / "metrics.jsonl");
  for (Json& record : records) {
    Json computed = Json::object();
    for (const auto& [name, value] : record.items()) {
      const bool is_measured = name.ends_with("_ms") || name.ends_with("_bytes") ||
                               name.ends_with("_per_second") || name.ends_with("memory") ||
                               name == "step_time";
      if (!is_measured) {
        computed[name] = value;
      }
    }
    record = computed;
  }
  return records;
}

}  // namespace reprise::testing
