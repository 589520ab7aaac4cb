// Values from a config file and a command line, combined.
#pragma once

#include "reprise/training/flags/flag_table.h"
#include "reprise/training/flags/yaml_config.h"

#include <vector>

namespace reprise::app {

/// The values of a config file. Keys that only `ignored` knows are skipped (null: no key is).
/// Throws "file:line: …" for other keys, all in one message, and for a flag that is given twice.
GivenValues values_in_config(std::vector<ConfigEntry> entries,
                             const FlagTable& table,
                             const FlagTable* ignored = nullptr);

/// Assigns the values of the config file, then those of the command line, and fills in
/// TrainingFlags::given. `flags` has the defaults of the table.
void assign_all(TrainingFlags& flags,
                const FlagTable& table,
                const GivenValues& from_file,
                const GivenValues& from_command_line);

/// Any LoRA setting enables LoRA. Throws if it was disabled explicitly (`has_choice`: use_peft was
/// given).
void enable_lora_if_set(TrainingFlags& flags, bool has_choice);

}  // namespace reprise::app
