// Prompts whose rows are stored in a spill file.
#pragma once

#include <reprise/data/prompts.h>

#include "data/prompts/prompt_encoder.h"
#include "data/prompts/spill_file.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace reprise::data {

/// Where the JSON text of a row is stored, and where it came from. RowReader limits rows to less
/// than 4 GiB.
struct SpilledRow {
  uint64_t offset = 0;
  int64_t line = 0;
  uint32_t bytes = 0;
  uint32_t file = 0;
};
static_assert(sizeof(SpilledRow) == 24, "the size that prompts.h documents");

struct SpilledPrompts {
  PromptEncoder encoder;
  SpillFile texts;
  std::vector<SpilledRow> rows;  ///< in the order of the set; all were tokenised successfully once
  std::vector<std::string> names;  ///< of the files
  PromptReport report;
};

std::shared_ptr<const PromptSet> view_prompts(SpilledPrompts prompts);

}  // namespace reprise::data
