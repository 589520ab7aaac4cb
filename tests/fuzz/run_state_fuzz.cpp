// libFuzzer: trainer_state.json, a zero byte and logs.json, of a checkpoint that a run resumes
// from. State that is read is the same after it was written and read again.
#include "fuzzed_folder.h"

#include "train/loop/run_state.h"

#include <reprise/train/trainer.h>

#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

namespace {

/// All that a checkpoint has of the state.
std::string text_of(const reprise::RunState& state) {
  return reprise::state_json(state, nullptr, 1).dump() +
         reprise::json_text(reprise::logs_json(state), "logs");
}

void write(const reprise::testing::FuzzedFolder& folder,
           const std::string& name,
           const std::string& text) {
  folder.write(name, {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const reprise::testing::FuzzedFolder folder("run_state_fuzz");
  const auto [state_bytes, logs_bytes] =
      reprise::testing::parts_of<2>(std::span<const uint8_t>(data, size));
  folder.write("trainer_state.json", state_bytes);
  folder.write("logs.json", logs_bytes);
  try {
    reprise::checkpoint_configuration(folder.path());
  } catch (const c10::Error&) {  // NOLINT(bugprone-empty-catch): refused
  }
  reprise::RunState state;
  try {
    state = reprise::read_run_state(folder.path());
  } catch (const c10::Error&) {
    return 0;
  }
  const std::string text = text_of(state);
  write(folder, "trainer_state.json", reprise::state_json(state, nullptr, 1).dump());
  write(folder, "logs.json", reprise::logs_json(state).dump());
  if (text_of(reprise::read_run_state(folder.path())) != text) {
    std::abort();
  }
  return 0;
}
