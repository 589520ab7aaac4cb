// Generation: one pass over the prompts (prefill), then one pass per token with a static KV cache.
//
// Invariant: row r of the cache, mask_, occurred_ and rows_ belongs to the same sequence.
#include <reprise/model/generate.h>

#include "model/eval_scope.h"
#include "model/generation/kv_cache.h"
#include "model/generation/sampling.h"
#include "model/generation/stop_check.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace reprise {

namespace {

using Prompts = std::vector<std::vector<int64_t>>;

int64_t longest_of(const Prompts& prompts) {
  size_t longest = 0;
  for (const auto& prompt : prompts) {
    longest = std::max(longest, prompt.size());
  }
  return static_cast<int64_t>(longest);
}

void check_options(const Model& model, const GenerateOptions& options) {
  TORCH_CHECK(model.head() == HeadKind::CausalLm,
              "[generate] the model has no language-model head: load it with HeadKind::CausalLm.");
  model::check_sampling(options.sampling);
  TORCH_CHECK(options.max_new_tokens >= 0,
              "[generate] max_new_tokens: expected 0 or more, found ",
              options.max_new_tokens);
  TORCH_CHECK(options.samples_per_prompt >= 1 &&
                  options.samples_per_prompt <= std::numeric_limits<int32_t>::max(),
              "[generate] samples_per_prompt: expected 1 or more, found ",
              options.samples_per_prompt);
  TORCH_CHECK(options.pad_id >= 0 && options.pad_id < model.config().vocabulary,
              "[generate] pad_id: expected an id below ",
              model.config().vocabulary,
              ", found ",
              options.pad_id);
}

void check_numbers(const Prompts& prompts, const GenerateOptions& options) {
  TORCH_CHECK(options.prompt_numbers.empty() || options.prompt_numbers.size() == prompts.size(),
              "[generate] prompt_numbers: expected one for each of ",
              prompts.size(),
              " prompts, found ",
              options.prompt_numbers.size());
}

void check_prompts(const ModelConfig& config, const Prompts& prompts) {
  for (size_t i = 0; i < prompts.size(); ++i) {
    TORCH_CHECK(!prompts[i].empty(),
                "[generate] prompt ",
                i,
                " has no tokens: give at least one, such as the beginning-of-text token.");
    for (const int64_t id : prompts[i]) {
      TORCH_CHECK(id >= 0 && id < config.vocabulary,
                  "[generate] prompt ",
                  i,
                  ": expected ids below ",
                  config.vocabulary,
                  ", found ",
                  id);
    }
  }
}

void check_length(const ModelConfig& config, int64_t prompt, int64_t new_tokens) {
  // Rotary positions have no limit, even if quality suffers; learned ones do.
  TORCH_CHECK(!config.has_learned_positions || (prompt <= config.max_positions &&
                                                new_tokens <= config.max_positions - prompt + 1),
              "[generate] a prompt of ",
              prompt,
              " tokens and ",
              new_tokens,
              " new ones: this model has learned ",
              config.max_positions,
              " positions. Shorten the prompt or lower max_new_tokens.");
}

class Generation {
 public:
  Generation(Model& model, const Prompts& prompts, const GenerateOptions& options)
      : model_(model),
        prompts_(prompts),
        options_(options),
        stops_(options),
        longest_(longest_of(prompts)),
        // The last new token is not fed back.
        cache_(model.config(),
               static_cast<int64_t>(prompts.size()),
               longest_ + options.max_new_tokens - 1,
               at::device(model.device()).dtype(model.dtype())) {}

  std::vector<Generated> run();

 private:
  // A sequence that is still being continued.
  struct Row {
    size_t sequence = 0;
    int64_t prompt = 0;
    int64_t sample = 0;
    int64_t next_token = 0;
    bool is_finished = false;
  };

  at::Tensor prefill();
  void repeat_for_samples();
  at::Tensor advance(int64_t step);
  void choose(const at::Tensor& logits, int64_t step);
  at::Tensor draws(int64_t step) const;
  void record(Row& row, int64_t token, float logprob);
  bool is_done() const;
  void drop_finished();
  void select_rows(const std::vector<int64_t>& rows);
  at::TensorOptions long_options() const { return at::device(model_.device()).dtype(at::kLong); }
  at::Tensor to_device(const std::vector<int64_t>& values) const;

  Model& model_;
  const Prompts& prompts_;
  const GenerateOptions& options_;
  model::StopCheck stops_;
  int64_t longest_;
  KvCache cache_;
  at::Tensor mask_;      // (rows, capacity); undefined if no prompt is padded
  at::Tensor occurred_;  // (rows, vocabulary); undefined without a repetition penalty
  std::vector<Row> rows_;
  std::vector<Generated> results_;
};

std::vector<Generated> Generation::run() {
  auto logits = prefill();
  repeat_for_samples();
  logits = logits.repeat_interleave(options_.samples_per_prompt, 0);
  for (int64_t step = 0;; ++step) {
    choose(logits, step);
    if (is_done() || step + 1 == options_.max_new_tokens) {
      return std::move(results_);
    }
    drop_finished();
    logits = advance(step);
  }
}

at::Tensor Generation::to_device(const std::vector<int64_t>& values) const {
  return at::tensor(values, at::kLong).to(model_.device());
}

at::Tensor Generation::prefill() {
  const auto count = static_cast<int64_t>(prompts_.size());
  auto ids = at::full({count, longest_}, -1, at::kLong);
  for (int64_t i = 0; i < count; ++i) {
    const auto& prompt = prompts_[static_cast<size_t>(i)];
    ids[i].slice(0, -static_cast<int64_t>(prompt.size())).copy_(at::tensor(prompt, at::kLong));
  }
  ids = ids.to(model_.device());
  const auto is_token = ids >= 0;
  ModelInput input;
  input.input_ids = ids.masked_fill(ids < 0, options_.pad_id);
  input.adapters = options_.adapters;
  if (!is_token.all().item<bool>()) {
    mask_ = at::ones({count, cache_.capacity()}, long_options().dtype(at::kBool));
    mask_.slice(1, 0, longest_).copy_(is_token);
    input.attention_mask = is_token;
    input.position_ids = (is_token.cumsum(1) - 1).clamp_min(0);
  }
  if (options_.sampling.repetition_penalty != 1) {
    occurred_ = model::occurrences(ids, model_.config().vocabulary);
  }
  const auto hidden = model_.hidden_states(input, &cache_);
  return model_.apply_head(hidden.slice(1, -1), options_.adapters).squeeze(1);
}

void Generation::repeat_for_samples() {
  const int64_t samples = options_.samples_per_prompt;
  std::vector<int64_t> prompt_rows;
  const size_t sequences = prompts_.size() * static_cast<size_t>(samples);
  prompt_rows.reserve(sequences);
  std::vector<Row> rows;
  rows.reserve(sequences);
  for (size_t prompt = 0; prompt < prompts_.size(); ++prompt) {
    for (int64_t sample = 0; sample < samples; ++sample) {
      prompt_rows.push_back(static_cast<int64_t>(prompt));
      rows.push_back({rows.size(), static_cast<int64_t>(prompt), sample});
    }
  }
  rows_ = std::move(rows);
  results_.resize(sequences);
  if (samples > 1) {
    select_rows(prompt_rows);
  }
}

void Generation::select_rows(const std::vector<int64_t>& rows) {
  const auto index = to_device(rows);
  cache_.select_rows(index);
  for (auto* state : {&mask_, &occurred_}) {
    if (state->defined()) {
      *state = state->index_select(0, index);
    }
  }
}

at::Tensor Generation::advance(int64_t step) {
  std::vector<int64_t> tokens, positions;
  tokens.reserve(rows_.size());
  positions.reserve(rows_.size());
  for (const auto& row : rows_) {
    const auto& prompt = prompts_[static_cast<size_t>(row.prompt)];
    tokens.push_back(row.next_token);
    positions.push_back(static_cast<int64_t>(prompt.size()) + step);
  }
  ModelInput input;
  input.input_ids = to_device(tokens).unsqueeze(1);
  input.position_ids = to_device(positions).unsqueeze(1);
  input.adapters = options_.adapters;
  if (mask_.defined()) {
    input.attention_mask = mask_.slice(1, 0, cache_.length() + 1);
  }
  if (occurred_.defined()) {
    occurred_.scatter_(1, input.input_ids, true);
  }
  const auto hidden = model_.hidden_states(input, &cache_);
  return model_.apply_head(hidden.slice(1, -1), options_.adapters).squeeze(1);
}

at::Tensor Generation::draws(int64_t step) const {
  std::vector<double> uniforms;
  uniforms.reserve(rows_.size());
  for (const auto& row : rows_) {
    const int64_t number = options_.prompt_numbers.empty()
                               ? options_.first_prompt + row.prompt
                               : options_.prompt_numbers[static_cast<size_t>(row.prompt)];
    uniforms.push_back(model::uniform_at(
        {options_.sampling.seed, number, options_.first_sample + row.sample, step}));
  }
  return at::tensor(uniforms, at::kDouble).to(model_.device());
}

void Generation::choose(const at::Tensor& logits, int64_t step) {
  const auto plain = logits.to(at::kFloat);
  const auto filtered = model::filter(plain, occurred_, options_.sampling);
  const auto tokens = options_.sampling.temperature == 0 ? filtered.argmax(-1)
                                                         : model::token_at(filtered, draws(step));
  const bool scales = options_.logprobs_at_temperature && options_.sampling.temperature > 0;
  const auto scored = scales ? plain / options_.sampling.temperature : plain;
  const auto logprobs = scored.gather(-1, tokens.unsqueeze(-1)).squeeze(-1) - scored.logsumexp(-1);
  // One transfer for both; a double represents every id exactly.
  const auto chosen = at::stack({tokens.to(at::kDouble), logprobs.to(at::kDouble)}).cpu();
  const auto* values = chosen.const_data_ptr<double>();
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (!rows_[i].is_finished) {
      record(
          rows_[i], static_cast<int64_t>(values[i]), static_cast<float>(values[rows_.size() + i]));
    }
  }
}

void Generation::record(Row& row, int64_t token, float logprob) {
  TORCH_CHECK(logprob == logprob,
              "[generate] prompt ",
              row.prompt,
              ": the model's logits are not numbers. Its weights are broken, or overflow in ",
              model_.dtype(),
              ": try float32.");
  auto& result = results_[row.sequence];
  row.next_token = token;
  result.ids.push_back(token);
  result.logprobs.push_back(logprob);
  if (options_.on_token) {
    options_.on_token(static_cast<int64_t>(row.sequence), token);
  }
  row.is_finished = result.is_finished = stops_.ends(result.ids);
}

bool Generation::is_done() const {
  return std::all_of(rows_.begin(), rows_.end(), [](const Row& row) { return row.is_finished; });
}

void Generation::drop_finished() {
  std::vector<int64_t> running;
  running.reserve(rows_.size());
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (!rows_[i].is_finished) {
      running.push_back(static_cast<int64_t>(i));
    }
  }
  // Dropping rows copies the cache of the others, which pays off once a quarter of the rows is
  // idle.
  if (4 * (rows_.size() - running.size()) < rows_.size()) {
    return;
  }
  select_rows(running);
  std::erase_if(rows_, [](const Row& row) { return row.is_finished; });
}

}  // namespace

std::vector<Generated> generate(Model& model,
                                const std::vector<std::vector<int64_t>>& prompts,
                                const GenerateOptions& options) {
  check_options(model, options);
  check_prompts(model.config(), prompts);
  check_numbers(prompts, options);
  if (prompts.empty() || options.max_new_tokens == 0) {
    return std::vector<Generated>(prompts.size() * static_cast<size_t>(options.samples_per_prompt));
  }
  check_length(model.config(), longest_of(prompts), options.max_new_tokens);
  const EvalScope eval(model);
  return Generation(model, prompts, options).run();
}

}  // namespace reprise
