// `reprise score`: the log-probability of every token of a text, given the tokens before it.
#include "reprise/commands.h"
#include "reprise/json_lines.h"
#include "reprise/model_options.h"
#include "reprise/text_record.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <utility>
#include <vector>

namespace reprise::app {

namespace {

struct ScoreOptions {
  ModelOptions model;
  int64_t batch_size = 8;
};

using Batch = std::vector<TokenIds>;

ModelInput padded(const Batch& batch, at::Device device) {
  size_t longest = 0;
  for (const auto& ids : batch) {
    longest = std::max(longest, ids.size());
  }
  const auto rows = static_cast<int64_t>(batch.size());
  auto ids = at::zeros({rows, static_cast<int64_t>(longest)}, at::kLong);
  auto mask = at::zeros_like(ids, at::kBool);
  for (int64_t row = 0; row < rows; ++row) {
    const auto& tokens = batch[static_cast<size_t>(row)];
    const auto length = static_cast<int64_t>(tokens.size());
    ids[row].narrow(0, 0, length).copy_(at::tensor(tokens, at::kLong));
    mask[row].narrow(0, 0, length).fill_(true);
  }
  ModelInput input;
  input.input_ids = ids.to(device);
  input.attention_mask = mask.to(device);
  return input;
}

// log p(token t + 1 | tokens 0..t), float32 (B, T - 1). Logits are computed in chunks of positions:
// for a long text and a large vocabulary all of them would be larger than the model.
at::Tensor logprobs_of(const LanguageModel& opened, const ModelInput& input) {
  Model& model = *opened.model;
  constexpr int64_t kLogitsAtOnce = int64_t{1} << 25;
  const auto hidden = model.hidden_states(input);
  const int64_t positions = hidden.size(1) - 1;
  const int64_t step = std::max<int64_t>(1, kLogitsAtOnce / (hidden.size(0) * model.outputs()));
  auto result = at::empty({hidden.size(0), positions}, hidden.options().dtype(at::kFloat));
  for (int64_t begin = 0; begin < positions; begin += step) {
    const int64_t count = std::min(step, positions - begin);
    const auto logits = model.apply_head(hidden.narrow(1, begin, count)).to(at::kFloat);
    const auto next = input.input_ids.narrow(1, begin + 1, count).unsqueeze(-1);
    result.narrow(1, begin, count)
        .copy_(logits.gather(-1, next).squeeze(-1) - logits.logsumexp(-1));
  }
  TORCH_CHECK(!result.isnan().any().item<bool>(),
              "the model's logits are not numbers: its weights are broken, or overflow in ",
              dtype_name(opened.autocast.value_or(model.dtype())));
  return result.cpu();
}

void print_scores(const LanguageModel& opened, const Batch& batch) {
  // Texts of one token or none have nothing to predict.
  const bool has_predictions =
      std::any_of(batch.begin(), batch.end(), [](const auto& ids) { return ids.size() > 1; });
  const auto logprobs =
      has_predictions ? logprobs_of(opened, padded(batch, opened.model->device())) : at::Tensor();
  for (size_t row = 0; row < batch.size(); ++row) {
    const auto& ids = batch[row];
    Json values = Json::array();
    for (size_t i = 0; i < ids.size(); ++i) {
      if (i == 0) {
        values.push_back(nullptr);
      } else {
        const auto* scores = logprobs[static_cast<int64_t>(row)].const_data_ptr<float>();
        values.push_back(scores[i - 1]);
      }
    }
    print_json_line({{"input_ids", ids}, {"logprobs", std::move(values)}});
  }
  std::cout.flush();
}

void run_score(const ScoreOptions& options) {
  const at::NoGradGuard no_grad;
  const auto opened = open_language_model(options.model);
  const auto autocast = autocast_scope(opened);
  const auto read = [&](const Json& record) {
    auto ids = tokenize_record(record, opened.tokenizer.get(), {}).ids;
    check_ids(ids, opened.model->config());
    return ids;
  };
  for_each_batch(
      std::cin, options.batch_size, read, [&](const Batch& batch) { print_scores(opened, batch); });
}

}  // namespace

void add_score(CLI::App& app) {
  auto options = std::make_shared<ScoreOptions>();
  auto* command = app.add_subcommand(
      "score", "Print the log-probability of every token, given the tokens before it.");
  command->footer(
      "Reads JSON lines: {\"text\": ..}, {\"messages\": [..]} or {\"input_ids\": [..]}.\nWrites "
      "{\"input_ids\": [..], \"logprobs\": [null, ..]} for each, in the same order.");
  add_model_options(*command, options->model);
  add_precision_options(*command, options->model);
  command->add_option("--batch_size", options->batch_size, "Texts per batch")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  command->callback([options] { run_score(*options); });
}

}  // namespace reprise::app
