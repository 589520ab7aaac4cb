#include "train/loop/run_state.h"

#include "io/checksums.h"
#include "train/loop/checkpoint_folders.h"

#include <reprise/train/trainer.h>

#include <c10/util/Exception.h>

#include <cstdint>
#include <string>

namespace reprise {

namespace fs = std::filesystem;

namespace {

int64_t count_in(const Json& json, const char* key, const std::string& where) {
  TORCH_CHECK(json.is_object() && json.contains(key) && json[key].is_number_integer() &&
                  json[key].get<int64_t>() >= 0,
              where,
              ": ",
              key,
              ": expected a count");
  return json[key].get<int64_t>();
}

std::map<std::string, MetricsMark> read_logs(const fs::path& file) {
  std::map<std::string, MetricsMark> logs;
  const Json json = read_json(file);
  TORCH_CHECK(json.is_object(), file.string(), ": expected an object, found ", kind_of(json));
  for (const auto& [name, mark] : json.items()) {
    const std::string where = file.string() + ": " + name;
    const int64_t crc32 = count_in(mark, "crc32", where);
    TORCH_CHECK(crc32 <= UINT32_MAX, where, ": crc32: expected 32 bits");
    logs[name] = {static_cast<uint64_t>(count_in(mark, "bytes", where)),
                  static_cast<uint32_t>(crc32)};
  }
  return logs;
}

void check_consistent(const RunState& state, const fs::path& folder, const std::string& where) {
  const auto step = step_in_name(folder);
  TORCH_CHECK(!step || *step == state.step,
              where,
              ": step: expected that of the folder, ",
              step.value_or(0),
              ", found ",
              state.step);
  TORCH_CHECK(state.best_step <= state.step && state.evaluations_without_best <= state.step,
              where,
              ": expected a best_step and evaluations_without_best of at most ",
              state.step);
}

}  // namespace

Json state_json(const RunState& state, const Json& configuration, int64_t world_size) {
  return {{"step", state.step},
          {"tokens", state.tokens},
          {"best_value", state.best_value ? Json(*state.best_value) : Json()},
          {"best_step", state.best_step},
          {"evaluations_without_best", state.evaluations_without_best},
          {"world_size", world_size},
          {"logs", kLogsFile},
          {"checksums", io::kChecksumsFile},
          {"configuration", configuration}};
}

Json logs_json(const RunState& state) {
  Json logs = Json::object();
  for (const auto& [name, mark] : state.logs) {
    logs[name] = {{"bytes", mark.bytes}, {"crc32", mark.crc32}};
  }
  return logs;
}

RunState read_run_state(const fs::path& folder) {
  const auto file = folder / kTrainerStateFile;
  const Json json = read_json(file);
  const std::string where = file.string();
  RunState state;
  state.step = count_in(json, "step", where);
  state.tokens = count_in(json, "tokens", where);
  state.best_step = count_in(json, "best_step", where);
  state.evaluations_without_best = count_in(json, "evaluations_without_best", where);
  if (json.contains("best_value") && !json["best_value"].is_null()) {
    TORCH_CHECK(json["best_value"].is_number(), where, ": best_value: expected a number or null");
    state.best_value = json["best_value"].get<double>();
  }
  if (json.contains("logs")) {  // not in checkpoints of older versions
    state.logs = read_logs(folder / kLogsFile);
  }
  check_consistent(state, folder, where);
  return state;
}

Json checkpoint_configuration(const fs::path& checkpoint) {
  const auto file = checkpoint / kTrainerStateFile;
  TORCH_CHECK(fs::exists(file),
              checkpoint.string(),
              ": is not a checkpoint of a training run: it has no ",
              kTrainerStateFile);
  const Json json = read_json(file);
  TORCH_CHECK(json.is_object() && json.contains("configuration"),
              file.string(),
              ": configuration: is missing");
  return json["configuration"];
}

}  // namespace reprise
