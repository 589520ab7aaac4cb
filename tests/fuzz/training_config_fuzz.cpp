// libFuzzer: a byte that chooses a training command, and its config file. Values that are taken are
// the same after they were saved as training.yaml and read again.
#include "fuzzed_file.h"

#include "reprise/training/flags/given_values.h"

#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

namespace {

using namespace reprise::app;

/// The configuration of a run that is given nothing but this file.
reprise::Json configuration_in(std::span<const uint8_t> bytes, const FlagTable& table) {
  const reprise::testing::FuzzedFile file(bytes);
  TrainingFlags flags = table.defaults;
  assign_all(flags, table, values_in_config(read_yaml_config(file.path()), table), {});
  return resolved_configuration(flags);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const FlagTable& table = table_of(kObjectives.at(data[0] % kObjectives.size()));
  reprise::Json configuration;
  try {
    configuration = configuration_in({data + 1, size - 1}, table);
  } catch (const c10::Error&) {
    return 0;
  }
  const std::string saved = to_yaml(configuration);
  if (configuration_in({reinterpret_cast<const uint8_t*>(saved.data()), saved.size()}, table) !=
      configuration) {
    std::abort();
  }
  return 0;
}
