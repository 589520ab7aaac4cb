// Samples and scores completions, a share of the prompts in each process.
//
// A completion's random numbers depend only on the number of its prompt, so it does not matter
// which process samples it. Work that may fail or take longer in one process (a reward, a long
// completion) runs with unsharded parameters, so that it needs no collectives.
#include "train/loop/stopwatch.h"
#include "train/online/completions.h"

#include <reprise/memory.h>
#include <reprise/model/sharded_parameters.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace reprise {

namespace {

// A contiguous share; shares differ by at most one prompt.
PromptBatch share_of(const PromptBatch& batch, const World& world) {
  const int64_t count = std::ssize(batch.indices);
  const int64_t first = count * world.rank() / world.size();
  const int64_t last = count * (world.rank() + 1) / world.size();
  const auto cut = [&](const std::vector<int64_t>& all) {
    return std::vector(all.begin() + first, all.begin() + last);
  };
  return {batch.prompts, cut(batch.indices), cut(batch.numbers)};
}

void add_prompts(const PromptBatch& batch, Completions& completions) {
  for (const int64_t index : batch.indices) {
    completions.prompts.push_back(batch.prompts.at(index));
  }
}

std::vector<Generated> sample(const OnlineJob& job,
                              const std::vector<Prompt>& prompts,
                              const std::vector<int64_t>& numbers,
                              RolloutOptions options) {
  std::vector<std::vector<int64_t>> ids;
  ids.reserve(prompts.size());
  for (const auto& prompt : prompts) {
    ids.push_back(prompt.ids);
  }
  options.generate.prompt_numbers = numbers;
  options.generate.logprobs_at_temperature = true;
  return rollout(*job.policy, ids, options);
}

void add_completions(const Tokenizer& tokenizer,
                     std::vector<Generated> generated,
                     Completions& completions) {
  const auto samples = generated.size() / std::max<size_t>(1, completions.prompts.size());
  std::vector<int64_t> finished;
  for (size_t i = 0; i < generated.size(); ++i) {
    auto& completion = generated[i];
    completions.texts.push_back(tokenizer.decode(completion.ids, /*skip_special_tokens=*/true));
    finished.push_back(completion.is_finished ? 1 : 0);
    completions.rows.push_back({completions.prompts[i / samples].ids,
                                std::move(completion.ids),
                                std::move(completion.logprobs)});
  }
  completions.finished = at::tensor(finished, at::kLong).to(at::kBool);
}

// Rewards of the completions, (N, K).
at::Tensor score(const OnlineJob& job, const Completions& completions) {
  if (completions.rows.empty()) {
    return at::empty({0, static_cast<int64_t>(job.rewards->size())}, at::kFloat);
  }
  std::vector<RewardRequest> requests;
  for (size_t i = 0; i < completions.rows.size(); ++i) {
    const auto& prompt = completions.prompts[i / static_cast<size_t>(completions.group_size())];
    requests.push_back({prompt.text,
                        completions.texts[i],
                        &prompt.row,
                        completions.finished[static_cast<int64_t>(i)].item<bool>(),
                        std::ssize(completions.rows[i].completion),
                        prompt.messages});
  }
  std::vector<double> flat;
  for (const auto& row : job.rewards->score(requests)) {
    flat.insert(flat.end(), row.begin(), row.end());
  }
  return at::tensor(flat, at::kDouble).to(at::kFloat).view({std::ssize(requests), -1});
}

// Everything about completions that other processes do not know.
std::string to_bytes(const Completions& completions) {
  Json rows = Json::array();
  for (size_t i = 0; i < completions.rows.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    const auto rewards = completions.rewards[index].contiguous();
    const auto* values = rewards.const_data_ptr<float>();
    rows.push_back({completions.rows[i].completion,
                    completions.rows[i].logprobs,
                    completions.texts[i],
                    completions.finished[index].item<bool>(),
                    std::vector<float>(values, values + rewards.numel())});
  }
  const auto bytes =
      Json::to_msgpack(rows);  // unlike JSON text, it allows any bytes in strings, and NaN
  return {bytes.begin(), bytes.end()};
}

Completions gather_completions(const Completions& own,
                               const PromptBatch& batch,
                               const World& world) {
  Completions all;
  add_prompts(batch, all);
  std::vector<int64_t> finished;
  std::vector<float> rewards;
  for (const auto& bytes : world.all_gather(to_bytes(own), "the completions of a rollout")) {
    for (const auto& row : Json::from_msgpack(bytes)) {
      all.rows.push_back({{}, row[0], row[1]});
      all.texts.push_back(row[2]);
      finished.push_back(row[3].get<bool>() ? 1 : 0);
      const auto scores = row[4].get<std::vector<float>>();
      rewards.insert(rewards.end(), scores.begin(), scores.end());
    }
  }
  const auto samples = static_cast<size_t>(all.group_size());
  for (size_t i = 0; i < all.rows.size(); ++i) {
    all.rows[i].prompt = all.prompts[i / samples].ids;
  }
  all.finished = at::tensor(finished, at::kLong).to(at::kBool);
  all.rewards = at::tensor(rewards).view({std::ssize(all.rows), own.rewards.size(1)});
  return all;
}

// Runs `work` so that an exception is thrown in all processes, and records that it was: the
// processes can still save a checkpoint together afterwards.
void run_on_all(PhaseCosts& costs,
                const World& world,
                const std::string& what,
                const std::function<void()>& work) {
  costs.failed_everywhere = true;
  world.run_on_all(what, work);
  costs.failed_everywhere = false;
}

}  // namespace

Completions sample_completions(const OnlineJob& job,
                               const PromptBatch& batch,
                               const RolloutOptions& options,
                               PhaseCosts& costs,
                               const World& world) {
  Completions completions;
  std::vector<Generated> generated;
  {
    const Stopwatch watch(costs.rollout_ms);
    const PeakTracker peak(job.policy->device());
    const UnshardedParameters unsharded(*job.policy);  // a collective of its own
    run_on_all(costs, world, "a rollout", [&] {
      const auto own = share_of(batch, world);
      add_prompts(own, completions);
      generated = sample(job, completions.prompts, own.numbers, options);
    });
    costs.rollout_peak = std::max(costs.rollout_peak, peak.peak());
  }
  const Stopwatch watch(costs.scoring_ms);
  const PeakTracker peak(job.policy->device());
  std::vector<std::unique_ptr<UnshardedParameters>> unsharded;
  for (const auto* model : job.rewards->models()) {
    unsharded.push_back(std::make_unique<UnshardedParameters>(*model));
  }
  run_on_all(costs, world, "scoring completions", [&] {
    add_completions(*job.tokenizer, std::move(generated), completions);
    completions.rewards = score(job, completions);
  });
  unsharded.clear();
  if (world.size() > 1) {
    completions = gather_completions(completions, batch, world);
  }
  completions.combined =
      combined_rewards(completions.rewards, at::tensor(job.rewards->weights()).to(at::kFloat));
  for (const auto& row : completions.rows) {
    costs.rollout_tokens += std::ssize(row.completion);
  }
  costs.scoring_peak = std::max(costs.scoring_peak, peak.peak());
  return completions;
}

}  // namespace reprise
