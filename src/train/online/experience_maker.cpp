#include "train/online/experience_maker.h"

#include "train/loop/batch_plan.h"
#include "train/loop/stopwatch.h"
#include "train/objectives/forward_passes.h"
#include "train/online/online_advantages.h"
#include "train/online/online_options.h"

#include <reprise/autocast.h>
#include <reprise/memory.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <numeric>
#include <utility>

namespace reprise {

namespace {

// Whether the policy is updated between sampling and the last step that uses the samples.
bool needs_old_logprobs(const OnlineOptions& options) {
  return options.iterations > 1 ||
         generation_micro_batches(options) > options.training.accumulation ||
         needs_sampling(options.policy) ||
         // A KL must compare two passes of the same kind: the sampler's kernels round differently.
         options.kl_reward_coef > 0;
}

using TokenPass = std::function<at::Tensor(const ExperienceBatch&)>;

// Values of a pass for every completion token, (N, C), computed in the micro-batches of training.
// Each process computes the micro-batches that it will train on, the same number in each.
at::Tensor completion_token_values(const Experience& experience,
                                   const TrainerOptions& options,
                                   const at::Device& device,
                                   const World& world,
                                   const TokenPass& pass) {
  // One scope per model: autocast keeps converted weights until its scope ends.
  const AutocastScope autocast(
      device.type(), options.autocast.value_or(at::kFloat), options.autocast.has_value());
  at::Tensor values;
  for (const auto& share : share_of_batches(experience.size(), options.batch_size, world)) {
    const auto& indices = share.examples;
    const auto rows = slice_experience(experience, indices.front(), std::ssize(indices), device);
    const auto part = rows.completion_values(pass(rows)).cpu();
    if (!values.defined()) {
      values = at::zeros(experience.mask.sizes(), part.options());
    }
    if (!share.is_filler) {
      values.slice(0, indices.front(), indices.back() + 1)
          .slice(1, 0, rows.longest_completion)
          .copy_(part);
    }
  }
  return world.sum(values, "values of all completions");  // rows of other processes are 0
}

}  // namespace

ExperienceMaker::ExperienceMaker(const OnlineJob& job,
                                 const OnlineOptions& options,
                                 const World& world)
    : job_(job), options_(options), world_(world) {}

GenerationBatch ExperienceMaker::next(int64_t prompts,
                                      const at::Tensor& order,
                                      GenerationState& state) {
  GenerationBatch batch;
  PhaseCosts costs;
  Completions completions;
  try {
    completions = next_completions(prompts, state, costs, batch.metrics);
  } catch (const std::exception&) {
    failed_everywhere_ = costs.failed_everywhere;
    throw;
  }
  auto& experience = batch.experience;
  {
    const Stopwatch watch(costs.scoring_ms);
    const PeakTracker peak(job_.policy->device());
    experience = make_experience(completions.rows, options_.training.collate.pad_id);
    experience.mask = mask_of(completions, experience.mask);
    experience.reorder(order);
    add_logprobs(experience);
    add_values(experience);
    costs.scoring_peak = std::max(costs.scoring_peak, peak.peak());
  }
  experience.reorder(order.argsort());  // back to adjacent groups
  add_advantages(completions, *job_.rewards, options_, experience, state.kl_coef, batch.metrics);
  completions.write_metrics(*job_.rewards, "", batch.metrics);
  costs.write_to(batch.metrics);
  batch.samples = completions.samples(
      *job_.rewards, *job_.prompts, experience.advantages, options_.samples_shown);
  experience.reorder(order);
  return batch;
}

// The prompts are visited epoch after epoch, each time in another order.
int64_t ExperienceMaker::prompt_at(int64_t number) {
  const int64_t size = job_.prompts->size();
  if (epoch_ != number / size) {
    epoch_ = number / size;
    order_ = epoch_order(size, options_.training.seed, epoch_, options_.training.shuffle);
  }
  return order_[static_cast<size_t>(number % size)];
}

// With filter_groups, samples until there are enough groups with a learning signal.
Completions ExperienceMaker::next_completions(int64_t prompts,
                                              GenerationState& state,
                                              PhaseCosts& costs,
                                              Json& metrics) {
  Completions kept;
  Completions spare;
  int64_t attempts = 0;
  for (; std::ssize(kept.prompts) < prompts && attempts < options_.filter_attempts; ++attempts) {
    PromptBatch batch{*job_.prompts, {}, {}};
    const int64_t missing = prompts - std::ssize(kept.prompts);
    for (int64_t i = 0; i < missing; ++i, ++state.prompts_used) {
      batch.numbers.push_back(state.prompts_used);
      batch.indices.push_back(prompt_at(state.prompts_used));
    }
    auto completions = sample_completions(job_, batch, options_.rollout, costs, world_);
    if (!options_.filter_groups) {
      return completions;
    }
    const auto signal =
        group_signal(completions.combined, completions.group_size(), options_.filter_means_between);
    std::vector<int64_t> with, without;
    for (int64_t i = 0; i < missing; ++i) {
      (signal.has_signal[i].item<bool>() ? with : without).push_back(i);
    }
    for (const auto& [chosen, target] : {std::pair(&without, &spare), std::pair(&with, &kept)}) {
      if (!chosen->empty()) {
        target->append_groups(completions, *chosen);
      }
    }
  }
  metrics["filter/rollouts"] = attempts;
  metrics["filter/groups_without_signal"] = std::ssize(spare.prompts);
  // The batch keeps its size: missing groups are filled up with groups without a signal.
  if (const int64_t missing = prompts - std::ssize(kept.prompts); missing > 0) {
    std::vector<int64_t> fill(static_cast<size_t>(missing));
    std::iota(fill.begin(), fill.end(), 0);
    kept.append_groups(spare, fill);
  }
  return kept;
}

at::Tensor ExperienceMaker::mask_of(const Completions& completions, const at::Tensor& mask) const {
  auto counts = at::ones({mask.size(0)}, at::kBool);
  if (options_.mask_truncated) {
    counts = counts.logical_and(completions.finished);
  }
  // Completions that no source could score are not learned from.
  counts = counts.logical_and(completions.combined.isnan().logical_not());
  return mask.logical_and(counts.unsqueeze(1));
}

void ExperienceMaker::add_logprobs(Experience& experience) const {
  const TokenRequests requests{.temperature = logprob_temperature(options_)};
  const auto device = job_.policy->device();
  const auto& training = options_.training;
  if (needs_old_logprobs(options_)) {
    experience.old_logprobs = completion_token_values(
        experience, training, device, world_, [&](const ExperienceBatch& rows) {
          return frozen_logprobs("the old policy",
                                 *job_.policy,
                                 rows.tokens,
                                 rows.targets,
                                 AdapterUse::Trained,
                                 requests)
              .logprobs;
        });
  }
  if (job_.reference) {
    job_.reference->move_to(device);
    experience.reference_logprobs = completion_token_values(
        experience, training, device, world_, [&](const ExperienceBatch& rows) {
          return job_.reference->logprobs(rows.tokens, rows.targets, requests).logprobs;
        });
    if (options_.offload_reference) {
      job_.reference->move_to(at::kCPU);
    }
  }
}

void ExperienceMaker::add_values(Experience& experience) const {
  if (job_.critic == nullptr) {
    return;
  }
  const auto pass = [&](const ExperienceBatch& rows) {
    at::Tensor values;
    frozen_pass(
        "the critic", *job_.critic, [&] { values = job_.critic->forward(input_of(rows.tokens)); });
    return values.to(at::kFloat);
  };
  experience.values =
      completion_token_values(experience, options_.training, job_.critic->device(), world_, pass);
}

Json ExperienceMaker::evaluate() {
  PromptBatch batch{*job_.eval_prompts, {}, {}};
  batch.indices.resize(static_cast<size_t>(job_.eval_prompts->size()));
  std::iota(batch.indices.begin(), batch.indices.end(), 0);
  batch.numbers = batch.indices;
  auto greedy = options_.rollout;
  greedy.generate.sampling.temperature = 0;
  greedy.generate.samples_per_prompt = 1;
  PhaseCosts costs;
  const auto completions = sample_completions(job_, batch, greedy, costs, world_);
  Json record = Json::object();
  record["eval_reward"] = nullptr;  // stays null if no completion could be scored
  completions.write_metrics(*job_.rewards, "eval_", record);
  record["eval_ms"] = costs.rollout_ms + costs.scoring_ms;
  return record;
}

}  // namespace reprise
