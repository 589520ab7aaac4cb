// What goes wrong in one process is an error in all: soon, with who and what, and never a hang.
#include <reprise/dist/connect.h>
#include <reprise/dist/world.h>

#include "support/processes.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace reprise {
namespace {

using testing::Environment;
using testing::free_port;
using testing::ProcessResult;
using testing::rendezvous_variables;
using testing::start_processes;
using testing::WorkerProcess;

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// A worker's world. Its errors are told to the others, as programs do, and printed.
void in_world(const std::function<void(const World&)>& work) {
  const char* seconds = std::getenv("TIMEOUT");
  WorldOptions options;
  options.timeout = std::chrono::seconds(seconds == nullptr ? 20 : std::atoi(seconds));
  try {
    const auto world = connect_world(rendezvous_from_environment().value(), options);
    try {
      work(*world);
    } catch (const c10::Error& error) {
      report_failure(*world, error.what_without_backtrace());
      throw;
    }
  } catch (const c10::Error& error) {
    std::cout << "error: " << error.what_without_backtrace() << std::endl;
    FAIL();
  }
}

/// Sums until something happens. Rank 0 says when it has begun.
TEST(Worker, DISABLED_Sums) {
  in_world([](const World& world) {
    for (int i = 0;; ++i) {
      world.sum(at::ones({1 << 21}), "gradients");
      if (i == 3) {
        std::cout << "begun" << std::endl;
      }
      std::this_thread::sleep_for(1ms);
    }
  });
}

TEST(Worker, DISABLED_Throws) {
  in_world([](const World& world) {
    for (int i = 0; i < 100; ++i) {
      TORCH_CHECK(world.rank() != 1 || i < 5, "[data] the file is torn");
      world.sum(at::ones({1000}), "gradients");
    }
  });
}

TEST(Worker, DISABLED_EndsEarly) {
  in_world([](const World& world) {
    world.barrier("the start");
    if (world.rank() != 1) {
      world.barrier("the end");
    }
  });
}

TEST(Worker, DISABLED_IsBehind) {
  in_world([](const World& world) {
    world.barrier("the start");
    if (world.rank() == 1) {
      std::this_thread::sleep_for(6s);
    }
    world.barrier("the end");
  });
}

TEST(Worker, DISABLED_LeavesOnePending) {
  in_world([](const World& world) {
    const auto value = at::ones({1 << 22});
    const auto pending = world.start_all_reduce(value, "gradients");
    TORCH_CHECK(world.rank() != 0, "[train] the loss is not a number");
    pending->wait();
    world.barrier("the end");
  });
}

TEST(Worker, DISABLED_Joins) {
  in_world([](const World& world) { world.barrier("the start"); });
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void expect_error(const ProcessResult& result, const std::string& part) {
  EXPECT_EQ(result.exit_code, 1) << result.out << result.err;
  EXPECT_TRUE(contains(result.out, part)) << "expected: " << part << "\n" << result.out;
}

void await_begun(const std::vector<WorkerProcess>& processes) {
  const auto end = Clock::now() + 60s;
  for (const auto& process : processes) {
    while (!contains(process.out(), "begun") && Clock::now() < end) {
      std::this_thread::sleep_for(20ms);
    }
  }
}

/// Ranks 0 and 2 of a world of four.
std::vector<WorkerProcess> start_incomplete(const Environment& changes) {
  const int port = free_port();
  std::vector<WorkerProcess> processes;
  for (const int rank : {0, 2}) {
    auto variables = rendezvous_variables(rank, 4, port);
    variables.insert(changes.begin(), changes.end());
    processes.emplace_back("Joins", variables);
  }
  return processes;
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Several worlds at once: most of the time all of them wait.
TEST(WorldFaults, AKilledProcessIsNamed) {
  auto other_killed = start_processes(3, "Sums");
  auto first_killed = start_processes(2, "Sums");
  await_begun(other_killed);
  await_begun(first_killed);
  const auto begin = Clock::now();
  other_killed[1].send(SIGKILL);
  first_killed[0].send(SIGKILL);
  for (const size_t survivor : {0, 2}) {
    const auto result = other_killed[survivor].wait();
    expect_error(result, "rank 1 does not respond: dead or stopped (last heard of ");
    expect_error(result, c10::str("[world] rank ", survivor, " of 3: sum 'gradients' (collective"));
  }
  expect_error(first_killed[1].wait(),
               "rank 0, or whatever process hosts the world's store, does not");
  EXPECT_LT(seconds_since(begin), 12.0);  // long before the timeout of 20 s
}

TEST(WorldFaults, WhoIsWaitedForTooLongIsNamed) {
  const Environment timeout{{"TIMEOUT", "4"}};
  auto other_stopped = start_processes(2, "Sums", timeout);
  auto first_stopped = start_processes(2, "Sums", timeout);
  auto behind = start_processes(2, "IsBehind", timeout);
  auto incomplete = start_incomplete(timeout);
  await_begun(other_stopped);
  await_begun(first_stopped);
  const auto begin = Clock::now();
  other_stopped[1].send(SIGSTOP);
  first_stopped[0].send(SIGSTOP);
  expect_error(other_stopped[0].wait(), "rank 1 does not respond: dead or stopped");
  expect_error(first_stopped[1].wait(),
               "rank 0, or whatever process hosts the world's store, does not");
  EXPECT_GT(seconds_since(begin), 3.5);
  EXPECT_LT(seconds_since(begin), 14.0);
  expect_error(behind[0].wait(), "rank 1 did not reach it (last heard of in sum 'the start'");
  EXPECT_NE(behind[1].wait().exit_code, 0);
  for (const auto& result : testing::wait_for(incomplete)) {
    expect_error(result, "these of the 4 processes did not join in time: rank 1, 3");
  }
}

TEST(WorldFaults, TheErrorOfOneIsSaidByAll) {
  auto processes = start_processes(3, "Throws");
  const auto results = testing::wait_for(processes);
  expect_error(results[1], "error: [data] the file is torn");
  expect_error(results[0], "rank 1 failed: [data] the file is torn");
  expect_error(results[2], "rank 1 failed: [data] the file is torn");
}

TEST(WorldFaults, AnErrorOfTheFirstWhileOneIsPendingIsSaidByAll) {
  auto processes = start_processes(2, "LeavesOnePending");
  const auto results = testing::wait_for(processes);
  expect_error(results[0], "error: [train] the loss is not a number");
  expect_error(results[1], "rank 0 failed: [train] the loss is not a number");
}

TEST(WorldFaults, WhoEndsEarlyIsNamed) {
  auto processes = start_processes(2, "EndsEarly");
  const auto results = testing::wait_for(processes);
  EXPECT_EQ(results[1].exit_code, 0);
  expect_error(results[0], "rank 1 left the world before it (last heard of in sum 'the start'");
}

TEST(WorldFaults, NobodyAtTheAddress) {
  auto variables = rendezvous_variables(1, 2, free_port());
  variables["TIMEOUT"] = "1";
  WorkerProcess process("Joins", variables);
  expect_error(process.wait(), "rank 1 of 2 found nobody at 127.0.0.1:");
}

TEST(WorldFaults, APortInUse) {
  const int port = free_port();
  const int handle = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(static_cast<uint16_t>(port));
  ASSERT_EQ(bind(handle, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(handle, 1), 0);
  WorkerProcess process("Joins", rendezvous_variables(0, 2, port));
  const auto result = process.wait();
  close(handle);
  expect_error(result, c10::str("another program uses port ", port));
  expect_error(result, "Set MASTER_PORT to a free port");
}

TEST(WorldFaults, DifferingSizes) {
  const int port = free_port();
  std::vector<WorkerProcess> processes;
  processes.emplace_back("Joins", rendezvous_variables(0, 3, port));
  processes.emplace_back("Joins", rendezvous_variables(1, 2, port));
  for (const auto& result : testing::wait_for(processes)) {
    expect_error(result, "Start all with the same WORLD_SIZE");
  }
}

TEST(WorldFaults, ARankThatIsThereTwice) {
  const int port = free_port();
  std::vector<WorkerProcess> processes;
  for (const int rank : {0, 1, 1}) {
    processes.emplace_back("Joins", rendezvous_variables(rank, 3, port));
  }
  for (const auto& result : testing::wait_for(processes)) {
    expect_error(result, "[world] rank 1 is used by two processes");
  }
}

}  // namespace
}  // namespace reprise
