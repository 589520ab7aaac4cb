// Which keys make a row of fine-tuning, in the order in which they count, and its labels: all
// tokens, less those of the prompt, less those that are not the assistant's, as the options say.
#include "data/sft_rows.h"

#include "data/row_effects.h"

#include <c10/util/Exception.h>

#include <optional>
#include <utility>

namespace reprise::detail {
namespace {

struct SftRow {
  std::string convention;
  std::optional<Passage> prompt;
  Passage body;  ///< the completion, or all there is
};

SftRow prompted(std::string convention, Passage prompt, Passage completion) {
  convention += form_of(completion);
  return {std::move(convention), std::move(prompt), std::move(completion)};
}

SftRow whole_chat(const RowFields& row, std::string_view role) {
  SftRow result{std::string(role), {}, read_passage(row, role)};
  if (!result.body.is_chat) {
    row.refuse(role, "a list of messages");
  }
  return result;
}

/// OpenRLHF's keys. A chat in "input" alone teaches its last message, unless all of the assistant's
/// turns are asked for; a text in it alone is plain text to go on from.
SftRow input_row(const RowFields& row, const RowOptions& options) {
  if (row.has("output")) {
    return prompted("input + output",
                    read_prompt(row, "input", options.input_template),
                    read_passage(row, "output"));
  }
  Passage input = read_passage(row, "input");
  if (!input.is_chat || options.assistant_only_loss) {
    const std::string convention = "input" + form_of(input);
    return {convention, {}, std::move(input)};
  }
  auto [prompt, last] = split_last_turn(input, row.name("input"));
  return prompted("input", std::move(prompt), std::move(last));
}

SftRow text_row(const RowFields& row) {
  SftRow result{"text", {}, read_passage(row, "text")};
  if (result.body.is_chat) {
    row.refuse("text", "a string");
  }
  return result;
}

SftRow read_row(const RowFields& row, const RowOptions& options) {
  for (const char* completion : {"completion", "sft_target"}) {
    if (row.has_all({"prompt", completion})) {
      return prompted("prompt + " + std::string(completion),
                      read_prompt(row, "prompt", options.input_template),
                      read_passage(row, completion));
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
              "completion_only_loss is for rows with prompt and completion, and this one has none "
              "such: ",
              row.convention);
}

SftRow read_checked_row(const RowFields& row, const RowOptions& options) {
  SftRow result = read_row(row, options);
  check_options_apply(result, options);
  check_row_effects(
      row,
      {result.convention, result.body.is_chat, result.prompt && !result.prompt->is_chat},
      options);
  return result;
}

/// The whole row, as yet uncut; with a prompt, `prompt` is where the completion begins.
TokenSequence sequence_of(const SftRow& row,
                          const Json& variables,
                          const PassageEncoder& encoder,
                          std::string& hint) {
  const RowOptions& options = encoder.options();
  const Passage end = encoder.ended(row.body);
  const Passage all = row.prompt ? joined(*row.prompt, end) : end;
  ChatEncoder::Marked marked;
  if (options.assistant_only_loss) {
    marked = encoder.chats().encode_marked(all.messages, variables, options.trained_turns);
  } else {
    marked.ids = encoder.encode(all, variables);
  }
  int64_t prompt = 0;
  if (row.prompt) {
    const TokenIds alone = encoder.encode_prompt(*row.prompt, variables);
    prompt = common_prefix(alone, marked.ids);
    hint = encoder.border_hint(alone, prompt);
  }
  const bool completion_only = row.prompt && options.completion_only_loss.value_or(true);
  TokenSequence sequence = completion_sequence(std::move(marked.ids), completion_only ? prompt : 0);
  sequence.prompt = prompt;
  for (size_t i = 0; i < marked.is_own.size(); ++i) {
    if (!marked.is_own[i]) {
      sequence.labels[i] = kIgnoredLabel;
    }
  }
  return sequence;
}

}  // namespace

std::string describe_sft(const RowFields& row, const RowOptions& options) {
  return read_checked_row(row, options).convention;
}

TokenizedRow tokenize_sft(const RowFields& row, const PassageEncoder& encoder) {
  const RowOptions& options = encoder.options();
  std::string hint;
  TokenSequence sequence =
      sequence_of(read_checked_row(row, options), template_variables(row), encoder, hint);
  TokenizedRow result;
  if (options.drop_too_long && options.max_length > 0 &&
      static_cast<int64_t>(sequence.ids.size()) > options.max_length) {
    ++result.dropped[kTooLong];
  } else {
    cut(sequence, options.max_length, options.truncation);
    result = kept_if_labelled(std::move(sequence));
  }
  result.hint = std::move(hint);
  return result;
}

}  // namespace reprise::detail
