// DPO over processes, FSDP and checkpointed blocks: policy and reference are cut into parts, a
// block's parameters come once for its forward and once for recompute and backward together, and
// the losses are those of one process. Started alone, it starts itself twice; under torchrun,
// mpirun or srun it joins their world.
#include <reprise/dist/connect.h>
#include <reprise/io/json.h>
#include <reprise/optim/optimizer.h>
#include <reprise/parallel/shard.h>
#include <reprise/train/dpo.h>

#include <ATen/ATen.h>

#include <arpa/inet.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr int64_t kSteps = 3, kPairs = 4;
constexpr const char* kData[kPairs][3] = {{"2 + 2 = ", "4", "5"},
                                          {"The sky is ", "blue", "a cube"},
                                          {"Paris is in ", "France", "March"},
                                          {"Say hello: ", "hello", "no"}};

reprise::TokenSequence sequence(const std::string& prompt, const std::string& answer) {
  reprise::TokenSequence row;  // a byte is a token
  for (const char letter : prompt + answer) {
    row.ids.push_back(letter);
    row.labels.push_back(row.ids.size() > prompt.size() ? letter : reprise::kIgnoredLabel);
  }
  row.prompt = static_cast<int64_t>(prompt.size());
  return row;
}

reprise::Batch pair_number(int64_t i) {
  const auto& [prompt, chosen, rejected] = kData[i];
  const reprise::Example pair{{sequence(prompt, chosen), sequence(prompt, rejected)}};
  return reprise::collate({&pair, 1}, {});
}

std::shared_ptr<reprise::Model> small_model() {
  const auto config = reprise::parse_json(
      R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 192,
          "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 128,
          "max_position_embeddings": 64, "rms_norm_eps": 1e-5})",
      "the example");
  auto model = std::make_shared<reprise::Model>(
      reprise::ModelConfig::from_json(config, "the example"), reprise::HeadKind::CausalLm);
  model->initialize(/*seed=*/1);
  return model;
}

enum class Checkpointed { BeforeSharding, AfterSharding };

/// The loss of each step; `about` says what this process had of the policy.
std::vector<double> train(const reprise::World& world, Checkpointed when, std::ostream& about) {
  const auto policy = small_model(), frozen = small_model();
  auto objective = reprise::make_dpo(policy, reprise::Reference(frozen));
  if (when == Checkpointed::BeforeSharding) {
    policy->enable_checkpointing();
  }
  const reprise::ShardOptions fsdp{.strategy = reprise::Parallel::Fsdp};
  const auto sharded = reprise::shard(*policy, world, fsdp);
  reprise::shard(*frozen, world, fsdp);
  if (when == Checkpointed::AfterSharding) {
    policy->enable_checkpointing();
  }
  const auto optimizer = reprise::Optimizer::make(sharded->trained(), {});
  std::vector<double> losses;
  for (int64_t step = 0; step < kSteps; ++step) {
    auto loss = at::zeros({}, at::kDouble);
    for (int64_t i = world.rank(); i < kPairs; i += world.size()) {
      sharded->begin_micro_batch(/*is_last=*/i + world.size() >= kPairs);
      const auto part = objective->loss(pair_number(i), {.total_weight = kPairs}).part;
      part.backward();
      sharded->end_backward();
      loss += part.detach();
    }
    losses.push_back(world.sum(loss, "the loss").item<double>());
    optimizer->step(/*learning_rate=*/1e-3);
    sharded->after_update();
    optimizer->zero_grad();
  }
  about << "process " << world.rank() << " of " << world.size() << ": " << sharded->bytes()
        << " bytes of the policy's parameters, " << optimizer->bytes() << " of its optimizer\n  in "
        << kSteps * kPairs / world.size() << " micro-batches a block was gathered "
        << sharded->traffic().forward_gathers[1] << " times for forward, "
        << sharded->traffic().backward_gathers[1] << " times for recompute and backward\n";
  return losses;
}

double difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(a[i] - b[i]));
  }
  return most;
}

int run_worker(const reprise::Rendezvous& rendezvous) {
  const auto world = reprise::connect_world(rendezvous, {});
  TORCH_CHECK(kPairs % world->size() == 0, "start 1, 2 or 4 processes: there are 4 pairs");
  std::ostringstream about, about_one, ignored;
  const auto losses = train(*world, Checkpointed::BeforeSharding, about);
  const auto other = train(*world, Checkpointed::AfterSharding, ignored);
  const auto alone = train(reprise::World::single(), Checkpointed::BeforeSharding, about_one);
  const auto texts = world->all_gather(about.str(), "what the processes had");
  const bool is_right = losses == other && difference(losses, alone) < 1e-6;
  if (world->is_first()) {
    for (const auto& text : texts) {
      std::cout << text;
    }
    std::cout << about_one.str();
    for (size_t i = 0; i < losses.size(); ++i) {
      std::cout << "step " << i + 1 << ": loss " << losses[i] << ", of one process " << alone[i]
                << "\n";
    }
    std::cout << (is_right ? "the same, whether checkpointed before or after it was sharded\n"
                           : "NOT the same\n");
  }
  return is_right ? 0 : 1;
}

/// That nobody listens on.
int free_port() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {}, .sin_zero = {}};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* any = reinterpret_cast<sockaddr*>(&address);
  TORCH_CHECK(bind(listener, any, length) == 0 && getsockname(listener, any, &length) == 0,
              "no port is free");
  close(listener);
  return ntohs(address.sin_port);
}

int start_processes(int count, char** arguments) {
  const auto say = [](const char* name, int value) {
    setenv(name, std::to_string(value).c_str(), /*overwrite=*/1);
  };
  setenv("OMP_NUM_THREADS", "1", /*overwrite=*/0);  // as torchrun: they share the cores
  setenv("MASTER_ADDR", "127.0.0.1", /*overwrite=*/1);
  say("MASTER_PORT", free_port());
  say("WORLD_SIZE", count);
  setenv("REPRISE_WORLD_SECRET", reprise::new_world_secret().c_str(), /*overwrite=*/1);
  std::vector<pid_t> children(static_cast<size_t>(count));
  for (int rank = 0; rank < count; ++rank) {
    say("RANK", rank);
    say("LOCAL_RANK", rank);
    auto& child = children[static_cast<size_t>(rank)];
    TORCH_CHECK(posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments, environ) == 0);
  }
  int failed = 0;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    failed += status == 0 ? 0 : 1;
  }
  return failed;
}

}  // namespace

int main(int /*count*/, char** arguments) {
  try {
    const auto rendezvous = reprise::rendezvous_from_environment();
    return rendezvous ? run_worker(*rendezvous) : start_processes(2, arguments);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
