// The prompts of rows that wait in a spill file.
#pragma once

#include <reprise/data/prompts.h>

#include "data/prompts_rows.h"
#include "data/prompts_spill.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace reprise::detail {

/// Where a row's JSON text is, and where it came from. RowReader gives no row of 4 GiB.
struct SpilledRow {
  uint64_t offset = 0;
  int64_t line = 0;
  uint32_t bytes = 0;
  uint32_t file = 0;
};
static_assert(sizeof(SpilledRow) == 24, "prompts.h says what a row costs");

struct SpilledPrompts {
  PromptEncoder encoder;
  SpillFile texts;
  std::vector<SpilledRow> rows;    ///< in the order of the set; each gave a prompt once
  std::vector<std::string> names;  ///< of the files
  PromptReport report;
};

std::shared_ptr<const PromptSet> view_prompts(SpilledPrompts prompts);

}  // namespace reprise::detail
