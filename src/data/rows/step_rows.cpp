// Two conventions. TRL's PRMTrainer: the last token of each step is labelled with its class.
// OpenRLHF: placeholder tokens are labelled with a reward token or a probability.
#include "data/rows/step_rows.h"

#include "data/rows/unused_options.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace reprise::data {
namespace {

std::string read_text(const RowFields& row, std::string_view role) {
  const Json& value = row.value(role);
  if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
    row.refuse(role, "a string that is not empty");
  }
  return value.get<std::string>();
}

struct StepRow {
  std::string prompt;
  std::vector<std::string> steps;
  std::vector<int64_t> classes;
};

int64_t read_class(const Json& label, const RowFields& row, int64_t classes) {
  if (label.is_boolean()) {
    return label.get<bool>() ? 1 : 0;
  }
  TORCH_CHECK(label.is_number_unsigned() && label.get<uint64_t>() < static_cast<uint64_t>(classes),
              row.name("labels"),
              ": expected true, false or the number of a class, from 0 to ",
              classes - 1,
              ", found ",
              excerpt(label));
  return label.get<int64_t>();
}

StepRow read_steps(const RowFields& row, int64_t classes) {
  if (!row.has_all({"prompt", "completions", "labels"})) {
    row.refuse_row("prm", {"prompt, completions and labels"});
  }
  StepRow result;
  result.prompt = read_text(row, "prompt");
  for (const Json& step : row.list("completions")) {
    TORCH_CHECK(step.is_string() && !step.get_ref<const std::string&>().empty(),
                row.name("completions"),
                ": expected strings that are not empty");
    result.steps.push_back(step.get<std::string>());
  }
  for (const Json& label : row.list("labels")) {
    result.classes.push_back(read_class(label, row, classes));
  }
  TORCH_CHECK(result.steps.size() == result.classes.size(),
              result.steps.size(),
              " completions and ",
              result.classes.size(),
              " labels; there must be one label for each");
  return result;
}

TokenSequence step_sequence(const StepRow& row, const RowEncoder& encoder) {
  const RowOptions& options = encoder.options();
  const TokenIds separator = encoder.encode_plain(options.step_separator);
  TokenSequence sequence;
  if (const auto bos = encoder.tokenizer().special_tokens().bos) {
    sequence.ids.push_back(*bos);
  }
  const TokenIds prompt = encoder.encode_plain(row.prompt);
  sequence.ids.insert(sequence.ids.end(), prompt.begin(), prompt.end());
  sequence.prompt = static_cast<int64_t>(sequence.ids.size());
  sequence.labels.assign(sequence.ids.size(), kIgnoredLabel);
  for (size_t i = 0; i < row.steps.size(); ++i) {
    TokenIds ids = encoder.encode_plain(row.steps[i]);
    ids.insert(ids.end(), separator.begin(), separator.end());
    TORCH_CHECK(!ids.empty(), "step ", i + 1, " has no tokens, so there is nothing to label");
    sequence.ids.insert(sequence.ids.end(), ids.begin(), ids.end());
    sequence.labels.resize(sequence.ids.size(), kIgnoredLabel);
    if (!options.train_on_last_step_only || i + 1 == row.steps.size()) {
      sequence.labels.back() = row.classes[i];
    }
  }
  return sequence;
}

/// The label of a placeholder: the id of a reward token and, for soft labels, a probability.
struct PlaceholderLabel {
  int64_t token = 0;
  float probability = 0;
};

PlaceholderLabel read_placeholder_label(const Json& label,
                                        const RowFields& row,
                                        const RowEncoder& encoder) {
  const std::vector<std::string>& rewards = encoder.options().reward_tokens;
  if (label.is_string()) {
    const auto& token = label.get_ref<const std::string&>();
    TORCH_CHECK(
        rewards.empty() || std::find(rewards.begin(), rewards.end(), token) != rewards.end(),
        row.name("label"),
        ": \"",
        token,
        "\" is not among reward_tokens");
    return {encoder.single_token(token, "the label"), 0};
  }
  TORCH_CHECK(label.is_number() && label >= 0 && label <= 1,
              row.name("label"),
              ": expected reward tokens or probabilities from 0 to 1, found ",
              excerpt(label));
  TORCH_CHECK(rewards.size() == 2,
              row.name("label"),
              " has probabilities, which need two reward_tokens: the good one, then the bad one");
  const auto probability = label.get<float>();
  return {encoder.single_token(rewards[probability >= 0.5F ? 0 : 1], "a reward token"),
          probability};
}

const Json& read_placeholder_labels(const RowFields& row) {
  if (!row.has_all({"input", "label"})) {
    row.refuse_row("prm", {"input and label"});
  }
  return row.list("label");
}

bool is_soft(const Json& labels, const RowFields& row) {
  const bool first = labels.front().is_number();
  for (const Json& label : labels) {
    TORCH_CHECK(label.is_number() == first,
                row.name("label"),
                " must be all reward tokens or all probabilities");
  }
  return first;
}

TokenSequence placeholder_sequence(const RowFields& row, const RowEncoder& encoder) {
  const Json& labels = read_placeholder_labels(row);
  TokenSequence sequence;
  sequence.ids = encoder.encode_plain(read_text(row, "input"));
  sequence.labels.assign(sequence.ids.size(), kIgnoredLabel);
  if (is_soft(labels, row)) {
    sequence.soft_labels.assign(sequence.ids.size(), 0.0F);
  }
  const int64_t placeholder =
      encoder.single_token(encoder.options().placeholder_token, "placeholder_token");
  const auto placeholders = std::count(sequence.ids.begin(), sequence.ids.end(), placeholder);
  TORCH_CHECK(static_cast<size_t>(placeholders) == labels.size(),
              row.name("input"),
              " has ",
              placeholders,
              " placeholders and ",
              row.name("label"),
              " has ",
              labels.size(),
              " labels; there must be one for each");
  for (size_t i = 0, next = 0; i < sequence.ids.size(); ++i) {
    if (sequence.ids[i] != placeholder) {
      continue;
    }
    const PlaceholderLabel target = read_placeholder_label(labels[next++], row, encoder);
    sequence.labels[i] = target.token;
    if (!sequence.soft_labels.empty()) {
      sequence.soft_labels[i] = target.probability;
    }
  }
  return sequence;
}

}  // namespace

std::string describe_prm(const RowFields& row, const RowOptions& options) {
  std::string convention = "prompt + completions + labels";
  if (options.prm == PrmConvention::StepEnds) {
    read_steps(row, options.classes);
  } else {
    convention = is_soft(read_placeholder_labels(row), row) ? "input + label, as probabilities"
                                                            : "input + label, as tokens";
    read_text(row, "input");
  }
  refuse_unused_options(row, {.convention = convention}, options);
  return convention;
}

TokenizedRow tokenize_prm(const RowFields& row, const RowEncoder& encoder) {
  const RowOptions& options = encoder.options();
  TokenSequence sequence = options.prm == PrmConvention::StepEnds
                               ? step_sequence(read_steps(row, options.classes), encoder)
                               : placeholder_sequence(row, encoder);
  const ExampleLength length = length_of({&sequence, 1}, options.max_length);
  truncate(sequence, options.max_length, options.truncation);
  TokenizedRow result = keep_if_labelled(std::move(sequence));
  result.lengths.push_back(length);
  return result;
}

}  // namespace reprise::data
