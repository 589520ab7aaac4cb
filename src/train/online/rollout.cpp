#include <reprise/train/rollout.h>

#include "model/generation/kv_cache.h"
#include "model/without_checkpointing.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace reprise {

namespace {

using Prompts = std::vector<std::vector<int64_t>>;

// The work of one call of generate(): some prompts, and some samples of each.
struct RolloutBatch {
  std::vector<size_t> prompts;
  int64_t first_sample = 0;
  int64_t samples = 0;
};

std::vector<size_t> longest_first(const Prompts& prompts) {
  std::vector<size_t> order(prompts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // The largest batch comes first, so that a lack of memory shows at once.
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return prompts[a].size() > prompts[b].size();
  });
  return order;
}

// How many sequences with prompts of at most this length fit into the KV cache limit.
int64_t sequences_at_once(const Model& model, size_t prompt, const RolloutOptions& options) {
  if (options.cache_bytes == 0) {
    return options.batch_size;
  }
  const int64_t positions =
      static_cast<int64_t>(prompt) + std::max<int64_t>(options.generate.max_new_tokens - 1, 0);
  const int64_t bytes =
      KvCache::bytes_per_position(model.config(), model.dtype()) * std::max<int64_t>(positions, 1);
  return std::clamp<int64_t>(options.cache_bytes / bytes, 1, options.batch_size);
}

std::vector<RolloutBatch> split_into_batches(const Model& model,
                                             const Prompts& prompts,
                                             const RolloutOptions& options) {
  const int64_t samples = options.generate.samples_per_prompt;
  const auto order = longest_first(prompts);
  std::vector<RolloutBatch> batches;
  for (size_t first = 0; first < order.size();) {
    const int64_t room = sequences_at_once(model, prompts[order[first]].size(), options);
    const auto together = std::min<size_t>(
        static_cast<size_t>(std::max<int64_t>(room / samples, 1)), order.size() - first);
    const auto begin = order.begin() + static_cast<std::ptrdiff_t>(first);
    const std::vector<size_t> members(begin, begin + static_cast<std::ptrdiff_t>(together));
    // If not all samples of one prompt fit, they are generated in several batches.
    for (int64_t sample = 0; sample < samples; sample += room) {
      batches.push_back({members, sample, std::min(room, samples - sample)});
    }
    first += together;
  }
  return batches;
}

void check_options(const Prompts& prompts, const RolloutOptions& options) {
  TORCH_CHECK(options.batch_size >= 1,
              "[rollout] batch_size: expected 1 or more sequences, found ",
              options.batch_size);
  TORCH_CHECK(options.cache_bytes >= 0,
              "[rollout] cache_bytes: expected 0 (no limit) or more, found ",
              options.cache_bytes);
  TORCH_CHECK(options.generate.samples_per_prompt >= 1,
              "[rollout] samples_per_prompt: expected 1 or more, found ",
              options.generate.samples_per_prompt);
  const auto& numbers = options.generate.prompt_numbers;
  TORCH_CHECK(numbers.empty() || numbers.size() == prompts.size(),
              "[rollout] prompt_numbers: expected one for each of ",
              prompts.size(),
              " prompts, found ",
              numbers.size());
}

class Rollout {
 public:
  Rollout(Model& model, const Prompts& prompts, const RolloutOptions& options)
      : model_(model),
        prompts_(prompts),
        options_(options),
        results_(prompts.size() * static_cast<size_t>(options.generate.samples_per_prompt)) {}

  std::vector<Generated> run() {
    int64_t done = 0;
    for (const auto& batch : split_into_batches(model_, prompts_, options_)) {
      generate_batch(batch);
      done += std::ssize(batch.prompts) * batch.samples;
      if (options_.progress) {
        options_.progress(done, std::ssize(results_));
      }
    }
    return std::move(results_);
  }

 private:
  // The index in the results of a sequence of a batch.
  size_t result_index(const RolloutBatch& batch, size_t sequence) const {
    const auto samples = static_cast<size_t>(batch.samples);
    const auto all_samples = static_cast<size_t>(options_.generate.samples_per_prompt);
    return batch.prompts[sequence / samples] * all_samples +
           static_cast<size_t>(batch.first_sample) + sequence % samples;
  }

  void generate_batch(const RolloutBatch& batch) {
    auto options = options_.generate;
    options.samples_per_prompt = batch.samples;
    options.first_sample += batch.first_sample;
    options.prompt_numbers.clear();
    Prompts prompts;
    for (const size_t prompt : batch.prompts) {
      prompts.push_back(prompts_[prompt]);
      options.prompt_numbers.push_back(number_of(prompt));
    }
    if (options.on_token) {
      options.on_token = [&](int64_t sequence, int64_t token) {
        const size_t index = result_index(batch, static_cast<size_t>(sequence));
        options_.generate.on_token(static_cast<int64_t>(index), token);
      };
    }
    auto generated = generate(model_, prompts, options);
    for (size_t i = 0; i < generated.size(); ++i) {
      results_[result_index(batch, i)] = std::move(generated[i]);
    }
  }

  int64_t number_of(size_t prompt) const {
    const auto& numbers = options_.generate.prompt_numbers;
    return numbers.empty() ? options_.generate.first_prompt + static_cast<int64_t>(prompt)
                           : numbers[prompt];
  }

  Model& model_;
  const Prompts& prompts_;
  const RolloutOptions& options_;
  std::vector<Generated> results_;
};

}  // namespace

std::vector<Generated> rollout(Model& model,
                               const Prompts& prompts,
                               const RolloutOptions& options) {
  check_options(prompts, options);
  std::vector<Generated> results;
  without_checkpointing("rollout", [&] { results = Rollout(model, prompts, options).run(); });
  return results;
}

}  // namespace reprise
