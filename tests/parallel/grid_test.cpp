// The equality grid: worlds of 1 to 4 processes on Gloo, every strategy, memory policies, families,
// objectives, all weights and LoRA. Losses and gradient norms of ten steps are those of one process
// (1e-6), and at a fixed world checkpointing changes no bit.
//
// A selection in which every pair of settings occurs; REPRISE_GRID=all runs every cell.
#include "parallel/grid_case.h"
#include "support/processes.h"

#include <reprise/dist/connect.h>
#include <reprise/io/file.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace reprise::testing {
namespace {

constexpr double kTolerance = 1e-6;

const std::vector<std::string> kStrategyNames = {"ddp", "zero2", "fsdp"};
const std::vector<std::string> kPolicies = {"full", "attention", "none"};
const std::vector<std::string> kFamilies = {"llama",
                                            "llama_untied",
                                            "mistral",
                                            "qwen2",
                                            "qwen3",
                                            "gpt2",
                                            "gpt_neox",
                                            "chatglm2",
                                            "gemma2",
                                            "cohere2"};
const std::vector<std::string> kObjectives = {
    "sft", "dpo", "kto", "reward", "prm", "kd", "ppo", "grpo"};

bool runs_all() {
  const char* grid = std::getenv("REPRISE_GRID");
  return grid != nullptr && std::string(grid) == "all";
}

// A case and, if it is checkpointed, the same without.
void add(std::vector<GridCase>& cases, const GridCase& one) {
  cases.push_back(one);
  if (one.policy != "none") {
    cases.push_back({one.task, one.has_lora, "none", one.strategy});
  }
}

std::vector<GridCase> all_cells() {
  std::vector<GridCase> cases;
  std::vector<std::string> tasks = kObjectives;
  for (const auto& family : kFamilies) {
    tasks.push_back("family:" + family);
  }
  for (const auto& task : tasks) {
    for (const auto& strategy : kStrategyNames) {
      for (const auto& policy : kPolicies) {
        for (const bool has_lora : {false, true}) {
          cases.push_back({task, has_lora, policy, strategy});
        }
      }
    }
  }
  return cases;
}

// Every pair of (world, strategy, policy, task, LoRA) with a few cells: they turn at different
// pace.
std::vector<GridCase> selection(size_t world) {
  std::vector<GridCase> cases;
  for (size_t i = 0; i < kStrategyNames.size(); ++i) {
    const size_t turn = world * kStrategyNames.size() + i;
    add(cases,
        {"family:" + kFamilies[turn % kFamilies.size()],
         (turn + world) % 2 == 0,
         kPolicies[(i + world) % kPolicies.size()],
         kStrategyNames[i]});
    add(cases,
        {kObjectives[(turn * 3) % kObjectives.size()],
         (turn / 2) % 2 == 1,
         kPolicies[(i + world + 1) % kPolicies.size()],
         kStrategyNames[i]});
    add(cases,
        {kObjectives[(turn * 3 + 4) % kObjectives.size()], false, "full", kStrategyNames[i]});
  }
  return cases;
}

// Runs cases in a world of so many processes; what the first of them measured, by name.
std::map<std::string, Json> run_in_processes(int size, const std::vector<GridCase>& cases) {
  const TemporaryFolder folder;
  Json list = Json::array();
  for (const auto& one : cases) {
    list.push_back(one.to_json());
  }
  write_json(folder.path() / "cases.json", list);
  run_processes(size, "Grid", {{"GRID_FOLDER", folder.path().string()}, {"OMP_NUM_THREADS", "1"}});
  std::map<std::string, Json> results;
  if (std::filesystem::exists(folder.path() / "results.json")) {
    const Json found = read_json(folder.path() / "results.json");
    for (const auto& [name, result] : found.items()) {
      results[name] = result;
    }
  }
  return results;
}

TEST(Worker, DISABLED_Grid) {
  const std::filesystem::path folder = std::getenv("GRID_FOLDER");
  at::set_num_threads(1);
  const auto world = connect_world(rendezvous_from_environment().value(), {});
  Json results = Json::object();
  for (const auto& json : read_json(folder / "cases.json")) {
    const auto one = GridCase::from_json(json);
    try {
      results[one.name()] = run_case(one, one.strategy.empty() ? World::single() : *world);
    } catch (const std::exception& error) {
      FAIL() << one.name() << ": " << error.what();
    }
  }
  if (world->is_first()) {
    write_json(folder / "results.json", results);
  }
}

void expect_close(const Json& found, const Json& expected, const std::string& name) {
  for (const char* figure : {"loss", "grad_norm"}) {
    // Before it moves, a policy's loss is the sum of advantages, which are whitened: it is their
    // rounding, and they are about 1.
    const bool is_rounding = name.starts_with("ppo") && std::string(figure) == "loss";
    const double scale = is_rounding ? 1 : 0;
    ASSERT_EQ(found.at(figure).size(), static_cast<size_t>(kGridSteps)) << name;
    for (size_t step = 0; step < found[figure].size(); ++step) {
      const auto a = found[figure][step].get<double>();
      const auto b = expected.at(figure)[step].get<double>();
      EXPECT_LE(std::abs(a - b), kTolerance * std::max(std::abs(b), scale))
          << name << ": " << figure << " of step " << step + 1 << ": " << a << ", alone " << b;
    }
  }
}

class Grid : public ::testing::TestWithParam<int> {};

TEST_P(Grid, HasTheLossesOfOneProcess) {
  const int size = GetParam();
  const auto cases = runs_all() ? all_cells() : selection(static_cast<size_t>(size));
  std::map<std::string, GridCase> bases;
  for (const auto& one : cases) {
    const GridCase base{one.task, one.has_lora, "none", ""};
    bases.emplace(base.name(), base);
  }
  std::vector<GridCase> alone;
  for (const auto& [name, base] : bases) {
    alone.push_back(base);
  }
  const auto expected = run_in_processes(1, alone);
  const auto found = run_in_processes(size, cases);
  for (const auto& one : cases) {
    ASSERT_TRUE(found.contains(one.name())) << one.name();
    const GridCase base{one.task, one.has_lora, "none", ""};
    expect_close(found.at(one.name()), expected.at(base.name()), one.name());
    const GridCase plain{one.task, one.has_lora, "none", one.strategy};
    EXPECT_EQ(found.at(one.name()), found.at(plain.name())) << one.name();
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, Grid, ::testing::Values(1, 2, 3, 4));

}  // namespace
}  // namespace reprise::testing
