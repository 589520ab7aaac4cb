// The orders in which examples are visited, compared with those of the tools people come from.
#include "data/dataset/mixture.h"
#include "data/dataset/numpy_random.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"

#include <reprise/data/dataset.h>
#include <reprise/io/json.h>

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace reprise::testing {
namespace {

TEST(EpochOrder, IsThatOfHuggingFacesTrainer) {
  const Json cases = read_json(fixtures() / "data/epoch_order.json");
  ASSERT_EQ(cases.size(), 9u);
  for (const Json& run : cases) {
    ASSERT_EQ(run["epochs"].size(), 3u);
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      EXPECT_EQ(epoch_order(run["size"], run["seed"], epoch, true),
                run["epochs"][static_cast<size_t>(epoch)].get<std::vector<int64_t>>())
          << "seed " << run["seed"] << ", epoch " << epoch;
    }
  }
}

TEST(EpochOrder, IsTheFilesOrderWithoutShuffling) {
  std::vector<int64_t> expected(100);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(epoch_order(100, 42, 3, false), expected);
}

TEST(EpochOrder, TakesAnEmptyDatasetAndRefusesNegativeNumbers) {
  EXPECT_TRUE(epoch_order(0, 42, 0, true).empty());
  expect_error([] { epoch_order(-1, 42, 0, true); }, "expected a number of examples, found -1");
  expect_error([] { epoch_order(1, 42, -1, true); }, "expected an epoch counted from 0, found -1");
}

TEST(NumpyRandom, GivesNumpysNumbers) {
  for (const Json& draw : read_json(fixtures() / "data/mixture.json")) {
    data::NumpyRandom random(draw["seed"]);
    for (const Json& expected : draw["uniform"]) {
      EXPECT_EQ(random.uniform(), expected.get<double>()) << "seed " << draw["seed"];
    }
  }
}

TEST(MixtureOrder, IsThatOfInterleaveDatasets) {
  const Json cases = read_json(fixtures() / "data/mixture.json");
  ASSERT_EQ(cases.size(), 4u);
  for (const Json& draw : cases) {
    const auto lengths = draw["lengths"].get<std::vector<int64_t>>();
    const auto weights = draw["probabilities"].get<std::vector<double>>();
    EXPECT_EQ(data::mixture_order(lengths, weights, draw["seed"]),
              draw["indices"].get<std::vector<int64_t>>())
        << "seed " << draw["seed"];
  }
}

TEST(MixtureOrder, TakesWeightsOfAnySum) {
  const std::vector<int64_t> sizes = {100, 100};
  const std::vector<double> small = {0.25, 0.75}, large = {2, 6};
  EXPECT_EQ(data::mixture_order(sizes, small, 3), data::mixture_order(sizes, large, 3));
}

}  // namespace
}  // namespace reprise::testing
