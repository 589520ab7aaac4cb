// Who may join a world: those who prove that they know its secret, at the addresses that were given
// and no others.
#include <reprise/dist/connect.h>
#include <reprise/dist/world.h>

#include "dist/groups.h"
#include "dist/peer_proof.h"
#include "support/listening.h"
#include "support/processes.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <netinet/in.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace reprise {
namespace {

using testing::Environment;
using testing::free_port;
using testing::rendezvous_variables;
using testing::TemporaryFolder;
using testing::WorkerProcess;
using namespace std::chrono_literals;

/// Joins, waits until the file OPEN is there, if one is named, and sums.
TEST(Worker, DISABLED_JoinsForAWhile) {
  try {
    WorldOptions options;
    options.timeout = 30s;
    const auto world = connect_world(rendezvous_from_environment().value(), options);
    for (const auto& each : testing::listeners_of(getpid())) {
      std::cout << "listens at " << (each.is_loopback() ? "loopback" : each.address) << "\n"
                << "port " << each.port << "\n";
    }
    std::cout << "begun" << std::endl;
    const char* open = std::getenv("OPEN");
    while (open != nullptr && !std::filesystem::exists(open)) {
      std::this_thread::sleep_for(10ms);
    }
    std::cout << "sum " << world->sum(at::ones({1 << 20}))[77].item<float>() << std::endl;
  } catch (const c10::Error& error) {
    std::cout << "error: " << error.what_without_backtrace() << std::endl;
    FAIL();
  }
}

bool has_part(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void expect_turned_away(WorkerProcess& process, const std::string& part) {
  const auto result = process.wait();
  EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
  EXPECT_TRUE(has_part(result.out, part)) << "expected: " << part << "\n" << result.out;
}

Environment with_secret(Environment variables, const std::string& secret) {
  variables["REPRISE_WORLD_SECRET"] = secret;
  return variables;
}

/// A connection to a port of this machine.
class Stranger {
 public:
  explicit Stranger(int port) : handle_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    EXPECT_EQ(connect(handle_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  ~Stranger() { close(handle_); }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  void say(const std::string& bytes) const {
    send(handle_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  /// All that it is told until the other side closes.
  std::string told() const {
    std::string all;
    char byte = 0;
    while (recv(handle_, &byte, 1, 0) == 1) {
      all += byte;
    }
    return all;
  }

 private:
  int handle_;
};

/// A world of two that stays until it is released, and what it then printed.
class OpenWorld {
 public:
  OpenWorld() : port_(free_port()) {
    for (const int rank : {0, 1}) {
      auto variables = rendezvous_variables(rank, 2, port_);
      variables["OPEN"] = open().string();
      processes_.emplace_back("JoinsForAWhile", variables);
    }
    const auto end = std::chrono::steady_clock::now() + 60s;
    for (const auto& process : processes_) {
      while (!has_part(process.out(), "begun") && std::chrono::steady_clock::now() < end) {
        std::this_thread::sleep_for(10ms);
      }
    }
  }
  int port() const { return port_; }
  /// All at which its processes listen, the store's and Gloo's.
  std::set<int> ports() const {
    std::set<int> found;
    for (const auto& process : processes_) {
      std::istringstream lines(process.out());
      for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("port ")) {
          found.insert(std::stoi(line.substr(5)));
        }
      }
    }
    return found;
  }
  std::vector<testing::ProcessResult> release() {
    std::ofstream(open()) << "now";
    return testing::wait_for(processes_);
  }

 private:
  std::filesystem::path open() const { return folder_ / "open"; }
  TemporaryFolder folder_;
  int port_;
  std::vector<WorkerProcess> processes_;
};

TEST(WorldSecret, AWorldOfOneMachineListensAtTheLoopbackAddressOnly) {
  OpenWorld world;
  const auto results = world.release();
  for (const auto& result : results) {
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_TRUE(has_part(result.out, "listens at loopback\n")) << result.out;
    EXPECT_FALSE(has_part(result.out, "listens at 0")) << result.out;
  }
}

TEST(WorldSecret, AnotherSecretIsRefusedAndTheWorldGoesOn) {
  OpenWorld world;
  WorkerProcess stranger(
      "JoinsForAWhile",
      with_secret(rendezvous_variables(1, 2, world.port()), "not the secret of this one"));
  expect_turned_away(stranger, "[world] rank 1 of 2 was refused by rank 0 at 127.0.0.1:");
  for (const auto& result : world.release()) {
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_TRUE(has_part(result.out, "sum 2")) << result.out;
  }
}

TEST(WorldSecret, NoSecretIsRefusedBeforeAnythingIsSent) {
  for (const int rank : {0, 1}) {
    WorkerProcess process("JoinsForAWhile",
                          with_secret(rendezvous_variables(rank, 2, free_port()), ""));
    expect_turned_away(process, "has no secret to prove to the others");
  }
}

TEST(WorldSecret, ARankWithAnotherSecretFromTheStartNeverTakesPart) {
  const int port = free_port();
  auto first = rendezvous_variables(0, 2, port);
  WorkerProcess other("JoinsForAWhile",
                      with_secret(rendezvous_variables(1, 2, port), "not the secret of this one"));
  WorkerProcess process("JoinsForAWhile", first);
  expect_turned_away(other, "their secrets differ");
  process.send(SIGKILL);  // it would wait for rank 1 until the timeout
  process.wait();
}

TEST(WorldSecret, StrangersAreToldANonceAndNothingElse) {
  OpenWorld world;
  const Stranger silent(world.port());
  const Stranger loud(world.port());
  loud.say(std::string(1 << 20, 'x'));
  EXPECT_LE(loud.told().size(), 40U + 33U);
  const Stranger replaying(world.port());
  replaying.say(std::string(64, '\0'));
  const auto told = replaying.told();
  ASSERT_EQ(told.size(), 40U + 33U);
  EXPECT_EQ(told[40], '-');
  for (const auto& result : world.release()) {
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_TRUE(has_part(result.out, "sum 2")) << result.out;
  }
}

TEST(WorldSecret, StrangersAtAnyPortDoNotDisturbTheWorld) {
  OpenWorld world;
  const auto ports = world.ports();
  EXPECT_EQ(ports.size(), 3U);  // the store's, and one of Gloo's in each process
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (const int port : ports) {
    for (const std::string& bytes :
         {std::string(), std::string("x"), std::string(8, '\0'), std::string(1 << 16, '\xff')}) {
      strangers.push_back(std::make_unique<Stranger>(port));
      strangers.back()->say(bytes);
      if (bytes.size() == 1) {
        strangers.pop_back();  // leaves in the middle of a message
      }
    }
  }
  for (const auto& result : world.release()) {
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    EXPECT_TRUE(has_part(result.out, "sum 2")) << result.out;
  }
}

TEST(WorldSecret, WhoListensInThePlaceOfRank0WithoutItIsFound) {
  const int handle = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  ASSERT_TRUE(bind(handle, generic, length) == 0 && getsockname(handle, generic, &length) == 0 &&
              listen(handle, 1) == 0);
  WorkerProcess process("JoinsForAWhile", rendezvous_variables(1, 2, ntohs(address.sin_port)));
  const int joined = accept(handle, nullptr, nullptr);
  const std::string greeting = "REPRISE\x01" + std::string(32, 'n');
  ASSERT_EQ(send(joined, greeting.data(), greeting.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(greeting.size()));
  std::string proof(64, '\0');
  ASSERT_EQ(recv(joined, proof.data(), proof.size(), MSG_WAITALL), 64);
  EXPECT_FALSE(has_part(proof, "secret"));
  const std::string welcome = "+" + std::string(32, 'p');
  ASSERT_EQ(send(joined, welcome.data(), welcome.size(), MSG_NOSIGNAL), 33);
  expect_turned_away(process, "does not know the secret of this world, so it is not rank 0");
  close(joined);
  close(handle);
}

TEST(WorldSecret, IsProvedOverTheConnectionsOfTensors) {
  const auto prove = [](const std::vector<std::string>& secrets) {
    const auto store = c10::make_intrusive<c10d::HashStore>();
    std::vector<std::string> errors(secrets.size());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < secrets.size(); ++rank) {
      threads.emplace_back([&, rank] {
        errors[rank] = testing::error_of([&] {
          const auto group = dist::connect_gloo({.store = store,
                                                 .rank = static_cast<int>(rank),
                                                 .size = static_cast<int>(secrets.size()),
                                                 .timeout = 20s},
                                                "127.0.0.1");
          dist::prove_to_peers(*group, secrets[rank]);
        });
      });
    }
    for (auto& thread : threads) {
      thread.join();
    }
    return errors;
  };
  EXPECT_EQ(prove({"the same", "the same", "the same"}), std::vector<std::string>(3));
  const auto errors = prove({"the same", "the same", "another"});
  EXPECT_TRUE(has_part(errors[0], "connected in the place of rank 2")) << errors[0];
  EXPECT_TRUE(has_part(errors[1], "connected in the place of rank 2")) << errors[1];
  EXPECT_TRUE(has_part(errors[2], "connected in the place of rank 0")) << errors[2];
}

// torchrun's agent listens at the address, and answers everybody.
TEST(WorldSecret, UnderTorchrunItsStoreOnlyTellsWhereRank0Is) {
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  const auto agent = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  const auto run = [&](const std::string& restart) {
    std::vector<WorkerProcess> processes;
    for (const int rank : {0, 1}) {
      auto variables = rendezvous_variables(rank, 2, agent->getPort());
      variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
      variables["TORCHELASTIC_RESTART_COUNT"] = restart;
      processes.emplace_back("JoinsForAWhile", variables);
    }
    return testing::wait_for(processes);
  };
  for (const char* restart : {"0", "1"}) {
    for (const auto& result : run(restart)) {
      EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
      EXPECT_TRUE(has_part(result.out, "sum 2")) << result.out;
      EXPECT_FALSE(has_part(result.out, "listens at 0")) << result.out;
    }
  }
  const auto keys = agent->listKeys();
  for (const auto& key : keys) {
    EXPECT_TRUE(has_part(key, "reprise/") || has_part(key, "init/")) << key;
  }
}

TEST(WorldSecret, IsReadFromAFileThatIsItsOwnersAlone) {
  const TemporaryFolder folder;
  const auto file = folder / "secret";
  std::ofstream(file) << "sixteen letters.\n";
  unsetenv("REPRISE_WORLD_SECRET");
  setenv("REPRISE_WORLD_SECRET_FILE", file.c_str(), /*overwrite=*/1);
  using std::filesystem::perms;
  std::filesystem::permissions(file, perms::owner_read | perms::group_read);
  testing::expect_error([] { world_secret_from_environment(); }, "other users may read it");
  std::filesystem::permissions(file, perms::owner_read | perms::owner_write);
  EXPECT_EQ(world_secret_from_environment(), "sixteen letters.");
  std::ofstream(file) << "short";
  testing::expect_error([] { world_secret_from_environment(); },
                        "has 5 characters; expected 16 to 4096");
  setenv("REPRISE_WORLD_SECRET", "sixteen letters.", /*overwrite=*/1);
  testing::expect_error([] { world_secret_from_environment(); }, "are both set");
  unsetenv("REPRISE_WORLD_SECRET");
  setenv("REPRISE_WORLD_SECRET_FILE", (folder / "none").c_str(), /*overwrite=*/1);
  testing::expect_error([] { world_secret_from_environment(); }, "No such file");
  setenv("REPRISE_WORLD_SECRET_FILE", folder.path().c_str(), /*overwrite=*/1);
  testing::expect_error([] { world_secret_from_environment(); },
                        "expected a file that can be read");
  unsetenv("REPRISE_WORLD_SECRET_FILE");
  EXPECT_FALSE(world_secret_from_environment());
  EXPECT_NE(new_world_secret(), new_world_secret());
}

}  // namespace
}  // namespace reprise
