#include "train/collector.h"

#include "train/batch_plan.h"
#include "train/online_advantages.h"
#include "train/online_options.h"
#include "train/passes.h"
#include "train/stopwatch.h"

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
         // A KL compares two passes of the same kind: kernels of the sampler round otherwise.
         options.kl_reward_coef > 0;
}

using TokenPass = std::function<at::Tensor(const ExperienceRows&)>;

// Something of every completion token, (N, C), a micro-batch at a time as training has them.
// Processes have those that they will train on, the same number each.
at::Tensor collect_tokens(const Experience& experience,
                          const TrainerOptions& options,
                          const at::Device& device,
                          const World& world,
                          const TokenPass& pass) {
  // One scope for each model: autocast keeps converted weights until its scope ends.
  const AutocastScope autocast(
      device.type(), options.autocast.value_or(at::kFloat), options.autocast.has_value());
  at::Tensor values;
  for (const auto& share : share_of_batches(experience.size(), options.batch_size, world)) {
    const auto& indices = share.examples;
    const auto rows = rows_of(experience, indices.front(), std::ssize(indices), device);
    const auto part = rows.of_completions(pass(rows)).cpu();
    if (!values.defined()) {
      values = at::zeros(experience.mask.sizes(), part.options());
    }
    if (!share.is_filler) {
      values.slice(0, indices.front(), indices.back() + 1).slice(1, 0, rows.completion).copy_(part);
    }
  }
  return world.sum(values, "figures of all completions");  // each has its rows, 0 elsewhere
}

}  // namespace

Collector::Collector(const OnlineJob& job, const OnlineOptions& options, const World& world)
    : job_(job), options_(options), world_(world) {}

Collected Collector::next(int64_t prompts, const at::Tensor& order, CollectorState& state) {
  Collected collected;
  PhaseCosts costs;
  Answers answers;
  try {
    answers = next_answers(prompts, state, costs, collected.figures);
  } catch (const std::exception&) {
    has_failed_together_ = costs.has_failed_everywhere;
    throw;
  }
  auto& experience = collected.experience;
  {
    const Stopwatch watch(costs.scoring_ms);
    const PeakTracker peak(job_.policy->device());
    experience = experience_of(answers.rows, options_.training.collate.pad_id);
    experience.mask = mask_of(answers, experience.mask);
    experience.reorder(order);
    add_logprobs(experience);
    add_values(experience);
    costs.scoring_peak = std::max(costs.scoring_peak, peak.peak());
  }
  experience.reorder(order.argsort());  // groups stand together again
  add_advantages(answers, *job_.rewards, options_, experience, state.kl_coef, collected.figures);
  answers.describe(*job_.rewards, "", collected.figures);
  costs.write_to(collected.figures);
  collected.samples =
      answers.samples(*job_.rewards, *job_.prompts, experience.advantages, options_.samples_shown);
  experience.reorder(order);
  return collected;
}

// Prompts are gone through again and again, each time in another order.
int64_t Collector::prompt_at(int64_t number) {
  const int64_t size = job_.prompts->size();
  if (epoch_ != number / size) {
    epoch_ = number / size;
    order_ = epoch_order(size, options_.training.seed, epoch_, options_.training.shuffle);
  }
  return order_[static_cast<size_t>(number % size)];
}

// Until there are enough groups that have something to tell, if that is asked for.
Answers Collector::next_answers(int64_t prompts,
                                CollectorState& state,
                                PhaseCosts& costs,
                                Json& figures) {
  Answers kept;
  Answers spare;
  int64_t attempts = 0;
  for (; std::ssize(kept.prompts) < prompts && attempts < options_.filter_attempts; ++attempts) {
    Questions questions{*job_.prompts, {}, {}};
    const int64_t missing = prompts - std::ssize(kept.prompts);
    for (int64_t i = 0; i < missing; ++i, ++state.prompts_used) {
      questions.numbers.push_back(state.prompts_used);
      questions.indices.push_back(prompt_at(state.prompts_used));
    }
    auto answers = ask(job_, questions, options_.rollout, costs, world_);
    if (!options_.filter_groups) {
      return answers;
    }
    const auto signal =
        group_signal(answers.combined, answers.group_size(), options_.filter_means_between);
    std::vector<int64_t> with, without;
    for (int64_t i = 0; i < missing; ++i) {
      (signal.has_signal[i].item<bool>() ? with : without).push_back(i);
    }
    for (const auto& [chosen, target] : {std::pair(&without, &spare), std::pair(&with, &kept)}) {
      if (!chosen->empty()) {
        target->take(answers, *chosen);
      }
    }
  }
  figures["filter/rollouts"] = attempts;
  figures["filter/groups_without_signal"] = std::ssize(spare.prompts);
  // The batch keeps its size: what is lacking is filled up with groups that have nothing to tell.
  if (const int64_t missing = prompts - std::ssize(kept.prompts); missing > 0) {
    std::vector<int64_t> fill(static_cast<size_t>(missing));
    std::iota(fill.begin(), fill.end(), 0);
    kept.take(spare, fill);
  }
  return kept;
}

at::Tensor Collector::mask_of(const Answers& answers, const at::Tensor& mask) const {
  auto counts = at::ones({mask.size(0)}, at::kBool);
  if (options_.mask_truncated) {
    counts = counts.logical_and(answers.finished);
  }
  // What nobody could score teaches nothing.
  counts = counts.logical_and(answers.combined.isnan().logical_not());
  return mask.logical_and(counts.unsqueeze(1));
}

void Collector::add_logprobs(Experience& experience) const {
  const TokenRequests requests{.temperature = logprob_temperature(options_)};
  const auto device = job_.policy->device();
  const auto& training = options_.training;
  if (needs_old_logprobs(options_)) {
    experience.old_logprobs =
        collect_tokens(experience, training, device, world_, [&](const ExperienceRows& rows) {
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
    experience.reference_logprobs =
        collect_tokens(experience, training, device, world_, [&](const ExperienceRows& rows) {
          return job_.reference->logprobs(rows.tokens, rows.targets, requests).logprobs;
        });
    if (options_.offload_reference) {
      job_.reference->move_to(at::kCPU);
    }
  }
}

void Collector::add_values(Experience& experience) const {
  if (job_.critic == nullptr) {
    return;
  }
  const auto pass = [&](const ExperienceRows& rows) {
    at::Tensor values;
    frozen_pass(
        "the critic", *job_.critic, [&] { values = job_.critic->forward(input_of(rows.tokens)); });
    return values.to(at::kFloat);
  };
  experience.values =
      collect_tokens(experience, options_.training, job_.critic->device(), world_, pass);
}

Json Collector::evaluate() {
  Questions questions{*job_.eval_prompts, {}, {}};
  questions.indices.resize(static_cast<size_t>(job_.eval_prompts->size()));
  std::iota(questions.indices.begin(), questions.indices.end(), 0);
  questions.numbers = questions.indices;
  auto greedy = options_.rollout;
  greedy.generate.sampling.temperature = 0;
  greedy.generate.samples_per_prompt = 1;
  PhaseCosts costs;
  const auto answers = ask(job_, questions, greedy, costs, world_);
  Json record = Json::object();
  record["eval_reward"] = nullptr;  // where nothing could be scored
  answers.describe(*job_.rewards, "eval_", record);
  record["eval_ms"] = costs.rollout_ms + costs.scoring_ms;
  return record;
}

}  // namespace reprise
