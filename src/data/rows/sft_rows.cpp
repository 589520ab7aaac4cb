// Rows for fine-tuning: the accepted keys in order of precedence, and the labels. Depending on the
// options, tokens of the prompt or tokens that are not the assistant's have no label.
#include "data/rows/sft_rows.h"

#include "data/rows/unused_options.h"

#include <c10/util/Exception.h>

#include <optional>
#include <utility>

namespace reprise::data {
namespace {

struct SftRow {
  std::string convention;
  std::optional<TextOrChat> prompt;
  TextOrChat body;  ///< the completion, or the whole row
};

SftRow prompted(std::string convention, TextOrChat prompt, TextOrChat completion) {
  convention += format_suffix(completion);
  return {std::move(convention), std::move(prompt), std::move(completion)};
}

SftRow whole_chat(const RowFields& row, std::string_view role) {
  SftRow result{std::string(role), {}, read_text_or_chat(row, role)};
  if (!result.body.is_chat) {
    row.refuse(role, "a list of messages");
  }
  return result;
}

/// OpenRLHF's keys. Without "output", a chat in "input" is trained on its last message, or on all
/// assistant turns with assistant_only_loss; text in "input" is plain language-modelling text.
SftRow input_row(const RowFields& row, const RowOptions& options) {
  if (row.has("output")) {
    return prompted("input + output",
                    read_prompt(row, "input", options.input_template),
                    read_text_or_chat(row, "output"));
  }
  TextOrChat input = read_text_or_chat(row, "input");
  if (!input.is_chat || options.assistant_only_loss) {
    const std::string convention = "input" + format_suffix(input);
    return {convention, {}, std::move(input)};
  }
  auto [prompt, last] = split_last_turn(input, row.name("input"));
  return prompted("input", std::move(prompt), std::move(last));
}

SftRow text_row(const RowFields& row) {
  SftRow result{"text", {}, read_text_or_chat(row, "text")};
  if (result.body.is_chat) {
    row.refuse("text", "a string");
  }
  return result;
}

SftRow read_sft_row(const RowFields& row, const RowOptions& options) {
  for (const char* completion : {"completion", "sft_target"}) {
    if (row.has_all({"prompt", completion})) {
      return prompted("prompt + " + std::string(completion),
                      read_prompt(row, "prompt", options.input_template),
                      read_text_or_chat(row, completion));
    }
  }
  for (const char* chat : {"messages", "conversations"}) {
    if (row.has(chat)) {
      return whole_chat(row, chat);
    }
  }
  if (row.has("text")) {
    return text_row(row);
  }
  if (row.has("input") && !row.has("instruction")) {  // Alpaca's "input" is half of a prompt
    return input_row(row, options);
  }
  row.refuse_row("sft",
                 {"prompt and completion",
                  "messages",
                  "conversations",
                  "text",
                  "input and output",
                  "input",
                  "prompt and sft_target"});
}

void check_options_apply(const SftRow& row, const RowOptions& options) {
  TORCH_CHECK(!options.assistant_only_loss || row.body.is_chat,
              "assistant_only_loss is for chats, and this row is text: ",
              row.convention);
  TORCH_CHECK(!options.completion_only_loss.value_or(false) || row.prompt.has_value(),
              "completion_only_loss is for rows with prompt and completion, and this row is not: ",
              row.convention);
}

SftRow read_checked_sft_row(const RowFields& row, const RowOptions& options) {
  SftRow result = read_sft_row(row, options);
  check_options_apply(result, options);
  refuse_unused_options(
      row,
      {result.convention, result.body.is_chat, result.prompt && !result.prompt->is_chat},
      options);
  return result;
}

/// The whole row, not truncated. With a prompt, `prompt` is where the completion begins.
TokenSequence sequence_of(SftRow row,
                          const Json& variables,
                          const RowEncoder& encoder,
                          std::string& hint) {
  const RowOptions& options = encoder.options();
  TextOrChat end = encoder.with_eos(std::move(row.body));
  const TextOrChat all = row.prompt ? concatenate(*row.prompt, end) : std::move(end);
  ChatEncoder::MaskedChat marked;
  if (options.assistant_only_loss) {
    marked = encoder.chats().encode_with_mask(all.messages, variables, options.trained_turns);
  } else {
    marked.ids = encoder.encode(all, variables);
  }
  int64_t prompt = 0;
  if (row.prompt) {
    const TokenIds alone = encoder.encode_prompt(*row.prompt, variables);
    prompt = common_prefix_length(alone, marked.ids);
    hint = encoder.boundary_hint(alone, prompt);
  }
  const bool completion_only = row.prompt && options.completion_only_loss.value_or(true);
  TokenSequence sequence = completion_sequence(std::move(marked.ids), completion_only ? prompt : 0);
  sequence.prompt = prompt;
  for (size_t i = 0; i < marked.assistant_mask.size(); ++i) {
    if (!marked.assistant_mask[i]) {
      sequence.labels[i] = kIgnoredLabel;
    }
  }
  return sequence;
}

}  // namespace

std::string describe_sft(const RowFields& row, const RowOptions& options) {
  return read_checked_sft_row(row, options).convention;
}

TokenizedRow tokenize_sft(const RowFields& row, const RowEncoder& encoder) {
  const RowOptions& options = encoder.options();
  std::string hint;
  TokenSequence sequence =
      sequence_of(read_checked_sft_row(row, options), template_variables(row), encoder, hint);
  const int64_t kept = options.drop_too_long ? 0 : options.max_length;
  const ExampleLength length = length_of({&sequence, 1}, kept);
  TokenizedRow result;
  if (options.drop_too_long && options.max_length > 0 &&
      static_cast<int64_t>(sequence.ids.size()) > options.max_length) {
    ++result.dropped[kTooLong];
  } else {
    truncate(sequence, options.max_length, options.truncation);
    result = keep_if_labelled(std::move(sequence));
  }
  result.lengths.push_back(length);
  result.hint = std::move(hint);
  return result;
}

}  // namespace reprise::data
