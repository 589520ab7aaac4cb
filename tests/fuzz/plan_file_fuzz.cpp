// libFuzzer: any bytes as a memory_plan.json. A plan that is read is the same after it was written
// and read again.
#include "fuzzed_file.h"
#include "fuzzed_folder.h"

#include "train/budget/plan_file.h"

#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const reprise::testing::FuzzedFolder folder("plan_file_fuzz");
  const reprise::testing::FuzzedFile file({data, size});
  std::optional<reprise::PlanFile> plan;
  try {
    plan = reprise::read_plan(file.path());
  } catch (const c10::Error&) {
    return 0;
  }
  reprise::write_plan(folder.path() / "plan.json", *plan);
  if (reprise::read_plan(folder.path() / "plan.json") != *plan) {
    std::abort();
  }
  return 0;
}
