// dpo tokenises a pair three times: the prompt alone, and the prompt with each answer. rm tokenises
// it twice, because it scores whole texts and does not need to know where the prompt ends.
#include "data/rows/pair_rows.h"

#include "data/rows/prompt_extraction.h"
#include "data/rows/unused_options.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace reprise::data {
namespace {

void check_same_form(const AnswerPair& pair, const RowFields& row) {
  TORCH_CHECK(pair.chosen.is_chat == pair.rejected.is_chat,
              row.name("chosen"),
              " and ",
              row.name("rejected"),
              " must both be text or both be chats");
}

PairRow read_chosen_rejected(const RowFields& row, const RowOptions& options) {
  AnswerPair pair{{}, read_text_or_chat(row, "chosen"), read_text_or_chat(row, "rejected")};
  check_same_form(pair, row);
  const std::string form = format_suffix(pair.chosen);
  for (const char* prompt : {"prompt", "context"}) {
    if (!row.has(prompt)) {
      continue;
    }
    // Many files repeat the prompt as text next to chats that begin with it.
    if (pair.chosen.is_chat && row.value(prompt).is_string()) {
      return {"chosen + rejected, as chat, " + std::string(prompt) + " repeated as text",
              {std::move(pair)}};
    }
    pair.prompt = read_prompt(row, prompt, options.input_template);
    return {std::string(prompt) + " + chosen + rejected" + form, {std::move(pair)}};
  }
  return {"chosen + rejected" + form, {std::move(pair)}};
}

/// Reads an index into the answers; throws if it is out of range.
size_t answer_index(const Json& value, size_t answers, const RowFields& row) {
  TORCH_CHECK(value.is_number_unsigned() && value.get<uint64_t>() < answers,
              row.name("pairs"),
              ": expected indices below ",
              answers,
              ", the number of responses, found ",
              excerpt(value));
  return value.get<size_t>();
}

/// {"prompt", "responses": [...], "pairs": [[better, worse], ...]}: the format of the loaders in
/// the direct-preference-optimization repository.
PairRow read_responses(const RowFields& row, const RowOptions& options) {
  const TextOrChat prompt = read_prompt(row, "prompt", options.input_template);
  std::vector<TextOrChat> answers;
  for (const Json& response : row.list("responses")) {
    answers.push_back(read_text_or_chat(response, row.name("responses")));
    TORCH_CHECK(answers.back().is_chat || !answers.back().text.empty(),
                row.name("responses"),
                " has an empty string");
  }
  PairRow result{"prompt + responses + pairs" + format_suffix(prompt), {}};
  for (const Json& pair : row.list("pairs")) {
    TORCH_CHECK(pair.is_array() && pair.size() == 2,
                row.name("pairs"),
                ": expected pairs such as [0, 1], the better response first");
    result.pairs.push_back({prompt,
                            answers[answer_index(pair[0], answers.size(), row)],
                            answers[answer_index(pair[1], answers.size(), row)]});
  }
  return result;
}

float read_margin(const RowFields& row) {
  if (!row.has("margin")) {
    return 0;
  }
  const Json& margin = row.value("margin");
  if (!margin.is_number() || !std::isfinite(margin.get<float>())) {
    row.refuse("margin", "a number");
  }
  return margin.get<float>();
}

/// Both sequences of a pair. The prompt ends at the earlier of the two positions where it differs.
std::vector<TokenSequence> pair_sequences(const AnswerPair& pair,
                                          const Json& variables,
                                          const RowEncoder& encoder,
                                          std::string& hint) {
  const TokenIds prompt = encoder.encode_prompt(*pair.prompt, variables);
  TokenIds chosen =
      encoder.encode(concatenate(*pair.prompt, encoder.with_eos(pair.chosen)), variables);
  TokenIds rejected =
      encoder.encode(concatenate(*pair.prompt, encoder.with_eos(pair.rejected)), variables);
  const int64_t length =
      std::min(common_prefix_length(prompt, chosen), common_prefix_length(prompt, rejected));
  if (hint.empty()) {
    hint = encoder.boundary_hint(prompt, length);
  }
  std::vector<TokenSequence> sequences;
  sequences.push_back(completion_sequence(std::move(chosen), length));
  sequences.push_back(completion_sequence(std::move(rejected), length));
  return sequences;
}

/// All ids without labels: a reward model learns a score of the sequence.
TokenSequence scored_sequence(const AnswerPair& pair,
                              const TextOrChat& answer,
                              const Json& variables,
                              const RowEncoder& encoder) {
  const TextOrChat end = encoder.with_eos(answer);
  TokenIds ids = encoder.encode(pair.prompt ? concatenate(*pair.prompt, end) : end, variables);
  const auto length = static_cast<int64_t>(ids.size());
  TokenSequence sequence = completion_sequence(std::move(ids), length);
  sequence.prompt = 0;
  return sequence;
}

bool is_longer(const TokenSequence& sequence, int64_t max_length) {
  return max_length > 0 && static_cast<int64_t>(sequence.ids.size()) > max_length;
}

}  // namespace

bool has_pairs(const RowFields& row) {
  return row.has_all({"chosen", "rejected"}) || row.has_all({"prompt", "responses", "pairs"});
}

const std::vector<std::string>& pair_conventions() {
  static const std::vector<std::string> conventions = {"prompt, chosen and rejected",
                                                       "chosen and rejected",
                                                       "context, chosen and rejected",
                                                       "prompt, responses and pairs"};
  return conventions;
}

PairRow read_pairs(const RowFields& row, const RowOptions& options, const std::string& objective) {
  if (!has_pairs(row)) {
    row.refuse_row(objective, pair_conventions());
  }
  PairRow result = row.has_all({"chosen", "rejected"}) ? read_chosen_rejected(row, options)
                                                       : read_responses(row, options);
  const AnswerPair& first = result.pairs.front();
  refuse_unused_options(
      row,
      {result.convention, first.chosen.is_chat, first.prompt && !first.prompt->is_chat},
      options);
  return result;
}

AnswerPair with_prompt(const AnswerPair& pair) {
  if (pair.prompt) {
    return pair;
  }
  ExtractedPrompt parts = extract_prompt(pair.chosen, pair.rejected);
  return {std::move(parts.prompt), std::move(parts.chosen), std::move(parts.rejected)};
}

TokenizedRow tokenize_dpo(const RowFields& row, const RowEncoder& encoder) {
  const RowOptions& options = encoder.options();
  const Json variables = template_variables(row);
  const bool keeps_start = options.truncation == TruncationSide::KeepStart;
  TokenizedRow result;
  for (const AnswerPair& pair : read_pairs(row, options, "dpo").pairs) {
    Example example;
    example.sequences = pair_sequences(with_prompt(pair), variables, encoder, result.hint);
    if (keeps_start && options.max_length > 0 &&
        example.sequences.front().prompt >= options.max_length) {
      ++result.dropped[kPromptTooLong];
      result.lengths.push_back(length_of(example.sequences, 0));
      continue;
    }
    result.lengths.push_back(length_of(example.sequences, options.max_length));
    for (TokenSequence& sequence : example.sequences) {
      truncate(sequence, options.max_length, options.truncation);
    }
    result.examples.push_back(std::move(example));
  }
  return result;
}

TokenizedRow tokenize_rm(const RowFields& row, const RowEncoder& encoder) {
  const RowOptions& options = encoder.options();
  const Json variables = template_variables(row);
  const std::optional<int64_t> pad = encoder.tokenizer().special_tokens().pad;
  TokenizedRow result;
  for (const AnswerPair& pair : read_pairs(row, options, "rm").pairs) {
    Example example;
    example.margin = read_margin(row);
    for (const TextOrChat* answer : {&pair.chosen, &pair.rejected}) {
      example.sequences.push_back(scored_sequence(pair, *answer, variables, encoder));
    }
    result.lengths.push_back(length_of(example.sequences, 0));
    if (is_longer(example.sequences[0], options.max_length) ||
        is_longer(example.sequences[1], options.max_length)) {
      ++result.dropped[kTooLong];
      continue;
    }
    for (const TokenSequence& sequence : example.sequences) {
      result.ends_with_pad |= !sequence.ids.empty() && sequence.ids.back() == pad;
    }
    result.examples.push_back(std::move(example));
  }
  return result;
}

}  // namespace reprise::data
