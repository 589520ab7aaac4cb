// How long the rows of a run are: what truncation takes away, and whether models have positions for
// them. Both are said before weights are read.
#pragma once

#include "reprise/progress_line.h"
#include "reprise/training/flags/flags.h"

#include <reprise/data/dataset.h>
#include <reprise/data/length_report.h>

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::app {

/// The flag that limits rows, and its value.
struct LengthLimit {
  std::string flag;    ///< "max_length"
  int64_t tokens = 0;  ///< 0: no limit
};

/// "3 of 48 examples are truncated at --max_length 64: 1.5 % of all tokens are lost; --max_length
/// 80 would keep 99 % of examples whole". Empty: all rows are whole. `unit`: "examples" or
/// "prompts".
std::string truncation_text(const LengthReport& lengths,
                            const LengthLimit& limit,
                            const std::string& unit);

/// The length of the longest example or packed row.
int64_t longest_of(const Dataset& data);

/// The lengths of documents that are packed: best fit truncates those that are longer than a row.
LengthReport lengths_in_packs(const Dataset& data, const TrainingFlags& flags);

/// The longest row of some files, as the models read it.
struct LongestRow {
  std::string files;  ///< "--data chat.jsonl"
  int64_t tokens = 0;
  std::string limit_flag;  ///< what makes rows shorter: "max_length"
};

/// Throws if a row is longer than the positions of the model, the reference or the teacher: always
/// for learned positions, for rotary ones unless --allow_untrained_positions was given.
void check_positions(const TrainingFlags& flags,
                     const std::vector<LongestRow>& rows,
                     ProgressLine& progress);

}  // namespace reprise::app
