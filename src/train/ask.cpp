// Sampling and judging, a share of the prompts in each process.
//
// Every completion depends on the number of its prompt alone, so it does not matter who asks. What
// may fail or take longer in one process (a reward, a long completion) is done with parameters
// held, and ends for all at the same place.
#include "train/answers.h"
#include "train/stopwatch.h"

#include <reprise/memory.h>
#include <reprise/model/parameter_keeper.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace reprise {

namespace {

// Neighbours; as many in each process, or one more.
Questions share_of(const Questions& questions, const World& world) {
  const int64_t count = std::ssize(questions.indices);
  const int64_t first = count * world.rank() / world.size();
  const int64_t last = count * (world.rank() + 1) / world.size();
  const auto cut = [&](const std::vector<int64_t>& all) {
    return std::vector(all.begin() + first, all.begin() + last);
  };
  return {questions.prompts, cut(questions.indices), cut(questions.numbers)};
}

void add_prompts(const Questions& questions, Answers& answers) {
  for (const int64_t index : questions.indices) {
    answers.prompts.push_back(questions.prompts.at(index));
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
                     Answers& answers) {
  const auto samples = generated.size() / std::max<size_t>(1, answers.prompts.size());
  std::vector<int64_t> finished;
  for (size_t i = 0; i < generated.size(); ++i) {
    auto& completion = generated[i];
    answers.texts.push_back(tokenizer.decode(completion.ids, /*skip_special_tokens=*/true));
    finished.push_back(completion.is_finished ? 1 : 0);
    answers.rows.push_back({answers.prompts[i / samples].ids,
                            std::move(completion.ids),
                            std::move(completion.logprobs)});
  }
  answers.finished = at::tensor(finished, at::kLong).to(at::kBool);
}

// Of these prompts' completions; rewards (N, K).
at::Tensor judge(const OnlineJob& job, const Answers& answers) {
  if (answers.rows.empty()) {
    return at::empty({0, static_cast<int64_t>(job.rewards->size())}, at::kFloat);
  }
  std::vector<RewardRequest> requests;
  for (size_t i = 0; i < answers.rows.size(); ++i) {
    const auto& prompt = answers.prompts[i / static_cast<size_t>(answers.group_size())];
    requests.push_back({prompt.text,
                        answers.texts[i],
                        &prompt.row,
                        answers.finished[static_cast<int64_t>(i)].item<bool>(),
                        std::ssize(answers.rows[i].completion),
                        prompt.messages});
  }
  std::vector<double> flat;
  for (const auto& row : job.rewards->score(requests)) {
    flat.insert(flat.end(), row.begin(), row.end());
  }
  return at::tensor(flat, at::kDouble).to(at::kFloat).view({std::ssize(requests), -1});
}

// All that others cannot know of completions.
std::string to_bytes(const Answers& answers) {
  Json rows = Json::array();
  for (size_t i = 0; i < answers.rows.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    const auto rewards = answers.rewards[index].contiguous();
    const auto* values = rewards.const_data_ptr<float>();
    rows.push_back({answers.rows[i].completion,
                    answers.rows[i].logprobs,
                    answers.texts[i],
                    answers.finished[index].item<bool>(),
                    std::vector<float>(values, values + rewards.numel())});
  }
  const auto bytes = Json::to_msgpack(rows);  // unlike text it has any string, and NaN
  return {bytes.begin(), bytes.end()};
}

Answers of_all_processes(const Answers& own, const Questions& questions, const World& world) {
  Answers all;
  add_prompts(questions, all);
  std::vector<int64_t> finished;
  std::vector<float> rewards;
  for (const auto& bytes : world.gather(to_bytes(own), "the answers of a rollout")) {
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

// Notes that an error is one of all processes, after which they can still do something together.
void fails_everywhere(PhaseCosts& costs,
                      const World& world,
                      const std::string& what,
                      const std::function<void()>& work) {
  costs.has_failed_everywhere = true;
  world.together(what, work);
  costs.has_failed_everywhere = false;
}

}  // namespace

Answers ask(const OnlineJob& job,
            const Questions& questions,
            const RolloutOptions& options,
            PhaseCosts& costs,
            const World& world) {
  Answers answers;
  std::vector<Generated> generated;
  {
    const Stopwatch watch(costs.rollout_ms);
    const PeakTracker peak(job.policy->device());
    const HeldParameters held(*job.policy);  // a collective of its own
    fails_everywhere(costs, world, "a rollout", [&] {
      const auto own = share_of(questions, world);
      add_prompts(own, answers);
      generated = sample(job, answers.prompts, own.numbers, options);
    });
    costs.rollout_peak = std::max(costs.rollout_peak, peak.peak());
  }
  const Stopwatch watch(costs.scoring_ms);
  const PeakTracker peak(job.policy->device());
  std::vector<std::unique_ptr<HeldParameters>> held;
  for (const auto* model : job.rewards->models()) {
    held.push_back(std::make_unique<HeldParameters>(*model));
  }
  fails_everywhere(costs, world, "judging completions", [&] {
    add_completions(*job.tokenizer, std::move(generated), answers);
    answers.rewards = judge(job, answers);
  });
  held.clear();
  if (world.size() > 1) {
    answers = of_all_processes(answers, questions, world);
  }
  answers.combined =
      combined_rewards(answers.rewards, at::tensor(job.rewards->weights()).to(at::kFloat));
  for (const auto& row : answers.rows) {
    costs.rollout_tokens += std::ssize(row.completion);
  }
  costs.scoring_peak = std::max(costs.scoring_peak, peak.peak());
  return answers;
}

}  // namespace reprise
