// Rows for kto. A pair becomes a desirable and an undesirable answer.
#include "data/rows/unpaired_rows.h"

#include "data/rows/pair_rows.h"
#include "data/rows/unused_options.h"

#include <utility>
#include <vector>

namespace reprise::data {
namespace {

struct LabelledAnswer {
  TextOrChat prompt, completion;
  bool is_desirable = true;
};

struct UnpairedRow {
  std::string convention;
  std::vector<LabelledAnswer> answers;
};

bool read_label(const RowFields& row) {
  const Json& label = row.value("label");
  if (label.is_boolean()) {
    return label.get<bool>();
  }
  if (!label.is_number() || (label != 0 && label != 1)) {
    row.refuse("label", "true or false, or 1 or 0");
  }
  return label == 1;
}

UnpairedRow single(std::string convention, TextOrChat prompt, TextOrChat completion, bool label) {
  convention += format_suffix(completion);
  return {std::move(convention), {{std::move(prompt), std::move(completion), label}}};
}

UnpairedRow from_pairs(const RowFields& row, const RowOptions& options) {
  PairRow pairs = read_pairs(row, options, "kto");
  UnpairedRow result{std::move(pairs.convention), {}};
  for (const AnswerPair& pair : pairs.pairs) {
    AnswerPair prompted = with_prompt(pair);
    result.answers.push_back({*prompted.prompt, std::move(prompted.chosen), true});
    result.answers.push_back({*prompted.prompt, std::move(prompted.rejected), false});
  }
  return result;
}

UnpairedRow without_unused_options(UnpairedRow result,
                                   const RowFields& row,
                                   const RowOptions& options) {
  const LabelledAnswer& answer = result.answers.front();
  refuse_unused_options(
      row, {result.convention, answer.completion.is_chat, !answer.prompt.is_chat}, options);
  return result;
}

UnpairedRow read_unpaired_row(const RowFields& row, const RowOptions& options) {
  for (const auto& [prompt, completion] :
       {std::pair{"prompt", "completion"}, std::pair{"input", "output"}}) {
    if (row.has_all({prompt, completion, "label"})) {
      return without_unused_options(single(std::string(prompt) + " + " + completion + " + label",
                                           read_prompt(row, prompt, options.input_template),
                                           read_text_or_chat(row, completion),
                                           read_label(row)),
                                    row,
                                    options);
    }
  }
  if (row.has_all({"input", "label"}) && row.value("input").is_array()) {
    auto [prompt, last] = split_last_turn(read_text_or_chat(row, "input"), row.name("input"));
    return without_unused_options(
        single("input + label", std::move(prompt), std::move(last), read_label(row)), row, options);
  }
  if (has_pairs(row)) {
    return from_pairs(row, options);
  }
  std::vector<std::string> conventions = {
      "prompt, completion and label", "input, output and label", "input (a chat) and label"};
  conventions.insert(conventions.end(), pair_conventions().begin(), pair_conventions().end());
  row.refuse_row("kto", conventions);
}

}  // namespace

std::string describe_kto(const RowFields& row, const RowOptions& options) {
  return read_unpaired_row(row, options).convention;
}

TokenizedRow tokenize_kto(const RowFields& row, const RowEncoder& encoder) {
  const int64_t max_length = encoder.options().max_length;
  const Json variables = template_variables(row);
  TokenizedRow result;
  for (const LabelledAnswer& answer : read_unpaired_row(row, encoder.options()).answers) {
    const TokenIds prompt = encoder.encode_prompt(answer.prompt, variables);
    TokenIds ids =
        encoder.encode(concatenate(answer.prompt, encoder.with_eos(answer.completion)), variables);
    const int64_t length = common_prefix_length(prompt, ids);
    if (result.hint.empty()) {
      result.hint = encoder.boundary_hint(prompt, length);
    }
    TokenSequence sequence = completion_sequence(std::move(ids), length);
    if (max_length > 0 && length >= max_length) {
      ++result.dropped[kPromptTooLong];
      result.lengths.push_back(length_of({&sequence, 1}, 0));
      continue;
    }
    result.lengths.push_back(length_of({&sequence, 1}, max_length));
    truncate(sequence, max_length > 0 ? length + max_length : 0, TruncationSide::KeepStart);
    Example& example = result.examples.emplace_back();
    example.sequences.push_back(std::move(sequence));
    example.desirable = answer.is_desirable;
  }
  return result;
}

}  // namespace reprise::data
