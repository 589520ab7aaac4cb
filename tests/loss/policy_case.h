// The batch of tests/fixtures/losses/policy, in micro-batches, and its cases as options.
#pragma once

#include "loss/loss_fixture.h"
#include "support/tensors.h"

#include <reprise/loss/policy_gradient.h>

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace reprise::testing {

inline PolicyOptions policy_options(const Json& settings) {
  PolicyOptions options;
  const auto read = [&](const char* name, double& value) { value = settings.value(name, value); };
  const auto read_optional = [&](const char* name, std::optional<double>& value) {
    if (settings.contains(name)) {
      value = settings.at(name).get<double>();
    }
  };
  const auto text = [&](const char* name, const char* otherwise) {
    return settings.value(name, std::string(otherwise));
  };
  options.loss = parse_policy_loss(settings.at("loss").get<std::string>());
  options.level = parse_ratio_level(text("level", "token"));
  options.kl = parse_kl_estimator(text("kl", "k3"));
  options.mismatch = parse_mismatch_correction(text("mismatch", "none"));
  options.kl_bias_correction = settings.value("kl_bias_correction", true);
  read("epsilon", options.epsilon);
  read("beta", options.beta);
  read("entropy_coef", options.entropy_coef);
  read("top_entropy_quantile", options.top_entropy_quantile);
  read("sapo_temperature_positive", options.sapo_temperature_positive);
  read("sapo_temperature_negative", options.sapo_temperature_negative);
  read("vespo_k_positive", options.vespo_k_positive);
  read("vespo_k_negative", options.vespo_k_negative);
  read("vespo_lambda_positive", options.vespo_lambda_positive);
  read("vespo_lambda_negative", options.vespo_lambda_negative);
  read_optional("epsilon_high", options.epsilon_high);
  read_optional("delta", options.delta);
  read_optional("dual_clip", options.dual_clip);
  read_optional("kl_clamp", options.kl_clamp);
  read_optional("off_policy_threshold", options.off_policy_threshold);
  read_optional("mismatch_least", options.mismatch_least);
  read_optional("mismatch_greatest", options.mismatch_greatest);
  return options;
}

class PolicyFixture : public ::testing::Test {
 protected:
  const Json& cases() const { return fixture_.cases().at("cases"); }

  PolicyStep step() const {
    const auto& totals = fixture_.cases().at("step");
    return {.micro_batches = totals.at("micro_batches"),
            .sequences = totals.at("sequences"),
            .tokens = totals.at("tokens"),
            .generation_tokens = totals.at("generation_tokens"),
            .generation_micro_batches = totals.at("generation_micro_batches"),
            .max_completion_length = totals.at("max_completion_length")};
  }

  /// All six rows, with leaves for log-probabilities and entropy.
  PolicyBatch batch(const Json& settings) const {
    PolicyBatch batch{.logprobs = fixture_.leaf("logprobs"),
                      .advantages = fixture_[settings.value("advantages", "advantages")],
                      .mask = fixture_["mask"],
                      .entropy = fixture_.leaf("entropy")};
    if (!settings.value("on_policy", false)) {
      batch.old_logprobs = fixture_["old"];
    }
    if (settings.contains("beta")) {
      batch.reference_logprobs = fixture_["reference"];
    }
    if (settings.contains("sampling")) {
      batch.sampling_logprobs = fixture_[settings.at("sampling").get<std::string>()];
    }
    return batch;
  }

  static PolicyBatch rows(const PolicyBatch& batch, int64_t first, int64_t end) {
    const auto cut = [&](const at::Tensor& t) { return t.defined() ? t.slice(0, first, end) : t; };
    return {cut(batch.logprobs),
            cut(batch.old_logprobs),
            cut(batch.reference_logprobs),
            cut(batch.sampling_logprobs),
            cut(batch.advantages),
            cut(batch.mask),
            cut(batch.entropy)};
  }

  LossFixture fixture_{"policy"};
};

inline const Metric* find_metric(const std::vector<Metric>& metrics, const std::string& name) {
  for (const auto& metric : metrics) {
    if (metric.name == name) {
      return &metric;
    }
  }
  return nullptr;
}

}  // namespace reprise::testing
