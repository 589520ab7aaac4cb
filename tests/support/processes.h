// Starts copies of the test program as the processes of a world.
//
// A worker is a case named Worker.DISABLED_<name>, which only run_processes() runs: it finds its
// place in the environment as any program does (rendezvous_from_environment), and fails as tests
// do.
#pragma once

#include "support/program.h"
#include "support/temporary_folder.h"

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

extern char** environ;  // NOLINT: POSIX's

namespace reprise::testing {

using Environment = std::map<std::string, std::string>;

/// What a process said and how it ended.
struct ProcessResult {
  int exit_code = -1;  ///< 128 + the signal, if one ended it
  std::string out, err;
};

/// A port that nobody listens on at this moment.
inline int free_port() {
  const int handle = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const bool is_bound =
      bind(handle, generic, length) == 0 && getsockname(handle, generic, &length) == 0;
  EXPECT_TRUE(is_bound);
  close(handle);
  return ntohs(address.sin_port);
}

/// A running copy of this program; killed if it is dropped before it has ended.
class WorkerProcess {
 public:
  WorkerProcess(const std::string& worker, const Environment& changes)
      : folder_(std::make_unique<TemporaryFolder>()) {
    Environment all;
    for (char** each = environ; *each != nullptr; ++each) {
      const std::string pair = *each;
      all[pair.substr(0, pair.find('='))] = pair.substr(pair.find('=') + 1);
    }
    all.erase("GTEST_OUTPUT");  // the parent's report
    for (const auto& [name, value] : changes) {
      all[name] = value;
    }
    std::vector<std::string> lines;
    for (const auto& [name, value] : all) {
      lines.push_back(name + "=" + value);
    }
    std::vector<std::string> arguments{program_path(),
                                       "--gtest_filter=Worker.DISABLED_" + worker,
                                       "--gtest_also_run_disabled_tests",
                                       "--gtest_color=no"};
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;
    posix_spawn_file_actions_addopen(&files, 1, file("out").c_str(), kFlags, 0600);
    posix_spawn_file_actions_addopen(&files, 2, file("err").c_str(), kFlags, 0600);
    const int failed = posix_spawn(&id_,
                                   arguments.front().c_str(),
                                   &files,
                                   nullptr,
                                   pointers(arguments).data(),
                                   pointers(lines).data());
    posix_spawn_file_actions_destroy(&files);
    EXPECT_EQ(failed, 0) << "could not start " << arguments.front();
  }
  ~WorkerProcess() {
    if (folder_ && !has_ended_) {
      send(SIGKILL);
      wait();
    }
  }
  WorkerProcess(WorkerProcess&&) = default;
  WorkerProcess& operator=(WorkerProcess&&) = delete;

  void send(int signal) const { kill(id_, signal); }

  /// What it has written so far.
  std::string out() const { return read_text(file("out")); }

  ProcessResult wait() {
    int status = 0;
    has_ended_ = waitpid(id_, &status, 0) == id_;
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
            read_text(file("out")),
            read_text(file("err"))};
  }

 private:
  static std::string program_path() { return std::filesystem::read_symlink("/proc/self/exe"); }
  std::string file(const char* name) const { return (folder_->path() / name).string(); }

  static std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> all;
    for (auto& text : texts) {
      all.push_back(text.data());
    }
    all.push_back(nullptr);
    return all;
  }

  std::unique_ptr<TemporaryFolder> folder_;
  pid_t id_ = 0;
  bool has_ended_ = false;
};

/// The variables that torchrun sets, for this machine.
inline Environment rendezvous_variables(int rank, int size, int port) {
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", std::to_string(size)},
          {"LOCAL_RANK", std::to_string(rank)},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", std::to_string(port)},
          {"REPRISE_WORLD_SECRET", "a secret of the tests"}};
}

/// Starts Worker.DISABLED_<worker> in so many processes, with these variables too.
inline std::vector<WorkerProcess> start_processes(int size,
                                                  const std::string& worker,
                                                  const Environment& changes = {}) {
  const int port = free_port();
  std::vector<WorkerProcess> processes;
  for (int rank = 0; rank < size; ++rank) {
    auto all = rendezvous_variables(rank, size, port);
    for (const auto& [name, value] : changes) {
      all[name] = value;
    }
    processes.emplace_back(worker, all);
  }
  return processes;
}

inline std::vector<ProcessResult> wait_for(std::vector<WorkerProcess>& processes) {
  std::vector<ProcessResult> results;
  for (auto& process : processes) {
    results.push_back(process.wait());
  }
  return results;
}

/// Runs them to the end; all are expected to succeed.
inline std::vector<ProcessResult> run_processes(int size,
                                                const std::string& worker,
                                                const Environment& changes = {}) {
  auto processes = start_processes(size, worker, changes);
  auto results = wait_for(processes);
  for (size_t rank = 0; rank < results.size(); ++rank) {
    EXPECT_EQ(results[rank].exit_code, 0) << worker << ", rank " << rank << " of " << size << ":\n"
                                          << results[rank].out << results[rank].err;
  }
  return results;
}

}  // namespace reprise::testing
