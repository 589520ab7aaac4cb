// libFuzzer: a byte that chooses objective and options, and any JSON as a row. The row is refused
// with c10::Error, or gives examples whose parts fit together and that are no longer than allowed.
#include "checked_example.h"
#include "fuzzed_json.h"
#include "fuzzed_tokenizer.h"

#include "data/prompts/prompt_encoder.h"

#include <reprise/data/rows.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace {

using reprise::Objective;

constexpr int64_t kMaxLength = 6;

/// The objective in the low bits, and in the others whatever it has a use for.
reprise::RowOptions options_of(uint8_t choice) {
  constexpr std::array kObjectives = {
      Objective::Sft, Objective::Rm, Objective::Prm, Objective::Dpo, Objective::Kto, Objective::Kd};
  reprise::RowOptions options;
  options.objective = kObjectives[choice % kObjectives.size()];
  const unsigned rest = choice / kObjectives.size();
  options.max_length = (rest & 1) != 0 ? kMaxLength : 0;
  options.assistant_only_loss = (rest & 2) != 0 && options.objective == Objective::Sft;
  if ((rest & 4) != 0 && options.objective == Objective::Prm) {
    options.prm = reprise::PrmConvention::Placeholders;
    options.placeholder_token = "a";
    options.reward_tokens = {"+", "-"};
  }
  if ((rest & 8) != 0 && options.objective == Objective::Dpo) {
    options.truncation = reprise::TruncationSide::KeepEnd;
  }
  return options;
}

void tokenize(const reprise::Json& row, const reprise::RowOptions& options) {
  const reprise::RowTokenizer rows(reprise::testing::small_tokenizer(), options);
  rows.describe(row);
  const int64_t limit = options.max_length * (options.objective == Objective::Kto ? 2 : 1);
  for (const reprise::Example& example : rows.tokenize(row).examples) {
    reprise::testing::check_example(example);
    for (const auto& sequence : example.sequences) {
      if (limit > 0 && static_cast<int64_t>(sequence.ids.size()) > limit) {
        std::abort();
      }
    }
  }
}

void read_prompt(const reprise::Json& row) {
  reprise::PromptOptions options;
  options.max_prompt_length = kMaxLength;
  const reprise::data::PromptEncoder prompts(reprise::testing::small_tokenizer(), options);
  if (static_cast<int64_t>(prompts.encode(prompts.read(row)).ids.size()) > kMaxLength) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr uint8_t kPrompts = 255;
  if (size == 0) {
    return 0;
  }
  return reprise::testing::fuzz_json(data + 1, size - 1, [&](const reprise::Json& row) {
    if (data[0] == kPrompts) {
      read_prompt(row);
    } else {
      tokenize(row, options_of(data[0]));
    }
  });
}
