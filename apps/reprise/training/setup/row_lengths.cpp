#include "reprise/training/setup/row_lengths.h"

#include "reprise/adapter_folder.h"
#include "reprise/training/setup/open_model.h"

#include <reprise/model/config.h>
#include <reprise/report/units.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace reprise::app {

namespace {

constexpr double kMostRows = 0.99;

std::string flag_text(const std::string& flag, int64_t value) {
  return "--" + flag + " " + std::to_string(value);
}

// The length of an input with this row. Learned positions also count the padding, unless documents
// are joined: each then has its own positions.
int64_t input_length(const TrainingFlags& flags, int64_t row, bool has_learned_positions) {
  const bool joins = flags.padding_free || (flags.packing && flags.packing_strategy != "wrapped");
  const int64_t multiple = flags.pad_to_multiple_of;
  return !has_learned_positions || joins ? row : (row + multiple - 1) / multiple * multiple;
}

void check_model_positions(const std::string& model_flag,
                           const std::string& folder,
                           const LongestRow& row,
                           const TrainingFlags& flags,
                           ProgressLine& progress) {
  const auto config = ModelConfig::read(model_folders({folder, ""}, "").model, other_part(flags));
  const bool is_learned = config.has_learned_positions;
  const int64_t length = input_length(flags, row.tokens, is_learned);
  const std::string model = "--" + model_flag + " " + folder;
  TORCH_CHECK(!is_learned || !flags.allow_untrained_positions,
              "--allow_untrained_positions has no effect: ",
              model,
              " has ",
              config.max_positions,
              " learned positions, and no others");
  if (length <= config.max_positions) {
    return;
  }
  const std::string too_long =
      row.files + ": the longest row has " + std::to_string(row.tokens) + " tokens" +
      (length > row.tokens ? ", padded to " + std::to_string(length) : "") + ", and " + model +
      (is_learned ? " has " : " was trained with ") + std::to_string(config.max_positions) +
      " positions";
  TORCH_CHECK(!is_learned && flags.allow_untrained_positions,
              too_long,
              is_learned ? ", which are learned and cannot be exceeded. Give "
                         : ". Give --allow_untrained_positions to train beyond them, or ",
              flag_text(row.limit_flag, config.max_positions));
  progress.print("warning: " + too_long);
}

}  // namespace

std::string truncation_text(const LengthReport& lengths,
                            const LengthLimit& limit,
                            const std::string& unit) {
  const bool exceeds = limit.tokens > 0 && lengths.length_for(1) > limit.tokens;
  if (lengths.truncated == 0 && !exceeds) {
    return "";
  }
  std::string text;
  if (lengths.truncated > 0) {
    const double lost = static_cast<double>(lengths.lost) / static_cast<double>(lengths.tokens);
    text = std::to_string(lengths.truncated) + " of " + std::to_string(lengths.examples) + " " +
           unit + " are truncated at " + flag_text(limit.flag, limit.tokens) + ": " +
           human_number(100 * lost, 3) + " % of all tokens are lost";
  } else {
    text = unit + " longer than " + flag_text(limit.flag, limit.tokens) + " are dropped";
  }
  const int64_t enough = lengths.length_for(kMostRows);
  return text + "; " +
         (enough > limit.tokens ? flag_text(limit.flag, enough) + " would keep 99 % of " + unit
                                : "99 % of " + unit + " are kept") +
         (lengths.truncated > 0 ? " whole" : "");
}

int64_t longest_of(const Dataset& data) {
  int64_t longest = 0;
  for (int64_t i = 0; i < data.size(); ++i) {
    longest = std::max(longest, data.length(i));
  }
  return longest;
}

LengthReport lengths_in_packs(const Dataset& data, const TrainingFlags& flags) {
  LengthReport lengths;
  for (int64_t i = 0; i < data.size(); ++i) {
    const int64_t length = data.length(i);
    const bool is_cut = flags.packing_strategy == "bfd" && length > flags.max_length;
    lengths.add({.longest = flags.packing_strategy == "bfd" ? length : 0,
                 .tokens = length,
                 .lost = is_cut ? length - flags.max_length : 0});
  }
  return lengths;
}

void check_positions(const TrainingFlags& flags,
                     const std::vector<LongestRow>& rows,
                     ProgressLine& progress) {
  const std::pair<const char*, const std::string&> models[] = {
      {"model", flags.model},
      {"ref_model", flags.ref_model},
      {"teacher_model", flags.teacher_model}};
  for (const auto& [flag, folder] : models) {
    for (const auto& row : rows) {
      if (!folder.empty()) {
        check_model_positions(flag, folder, row, flags, progress);
      }
    }
  }
}

}  // namespace reprise::app
