// Losses on a head's hidden states, against OpenRLHF's and TRL's on whole logits.
#include "loss/loss_fixture.h"
#include "support/tensors.h"

#include <reprise/loss/head.h>

#include <gtest/gtest.h>

#include <string>

namespace reprise {
namespace {

class HeadPeers : public ::testing::Test {
 protected:
  // Mean over the tokens that count.
  at::Tensor run(const at::Tensor& hidden, const Json& settings) const {
    const LinearHead head{fixture_["head"]};
    const auto targets = fixture_["targets"];
    const auto tokens = targets.ne(kIgnoredLabel).sum();
    const auto function = settings.at("function").get<std::string>();
    if (function == "linear_cross_entropy") {
      return linear_cross_entropy(hidden, head, targets).sum / tokens;
    }
    if (function == "token_logprobs") {
      return -token_logprobs(hidden, head, targets).logprobs.sum() / tokens;
    }
    DivergenceOptions options;
    if (settings.contains("beta")) {
      options.kind = DivergenceOptions::Kind::Jensen;
      options.beta = settings.at("beta");
      options.temperature = settings.value("temperature", 1.0);
    }
    return linear_divergence(hidden,
                             head,
                             fixture_["teacher.hidden"],
                             {fixture_["teacher.head"]},
                             targets,
                             options)
               .sum() /
           tokens;
  }

  testing::LossFixture fixture_{"head"};
};

TEST_F(HeadPeers, AgreeInEveryCase) {
  ASSERT_EQ(fixture_.cases().size(), 6U);
  for (const auto& [name, settings] : fixture_.cases().items()) {
    const auto hidden = fixture_.leaf("hidden");
    fixture_.expect_loss_and_gradient(name, run(hidden, settings), hidden);
  }
}

}  // namespace
}  // namespace reprise
