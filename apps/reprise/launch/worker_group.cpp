#include "reprise/launch/worker_group.h"

#include <c10/util/Exception.h>

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <system_error>
#include <utility>

namespace reprise::app {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

std::set<pid_t> children() {
  std::set<pid_t> found;
  std::error_code not_there;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", not_there)) {
    const std::string name = entry.path().filename().string();
    std::string text;
    if (name.find_first_not_of("0123456789") == std::string::npos &&
        std::getline(std::ifstream(entry.path() / "stat"), text)) {
      // "7 (a name) S 1 ...": state and parent follow the name, which may contain anything.
      const size_t state = text.rfind(") ") + 2;
      if (std::stoi(text.substr(state + 2)) == ::getpid()) {
        found.insert(std::stoi(name));
      }
    }
  }
  return found;
}

/// Kills orphans: processes that a worker started in their own process group, such as a reward
/// command, and that outlive it. They become children of this process and may hold a GPU.
class Orphans {
 public:
  Orphans() : others_(children()) { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }
  Orphans(const Orphans&) = delete;
  Orphans& operator=(const Orphans&) = delete;

  ~Orphans() {
    // The children of a killed orphan become orphans in turn.
    for (auto left = orphans(); !left.empty(); left = orphans()) {
      for (const pid_t each : left) {
        if (::kill(each, SIGKILL) != 0) {
          others_.insert(each);  // no longer ours
        }
        while (!others_.contains(each) && ::waitpid(each, nullptr, __WALL) < 0 && errno == EINTR) {
        }
      }
    }
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  }

 private:
  std::set<pid_t> orphans() const {
    auto found = children();
    std::erase_if(found, [&](pid_t each) { return others_.contains(each); });
    return found;
  }

  std::set<pid_t> others_;  // children that existed before the group
};

class Group {
 public:
  Group(milliseconds grace, const SignalInbox& inbox) : grace_(grace), inbox_(inbox) {}

  void start(int64_t rank, const WorkerCommand& command) { workers_.emplace_back(rank, command); }

  GroupEnd wait() {
    while (is_running()) {
      sleep();
      pass_on_signals();
      std::vector<std::pair<int64_t, WorkerEnd>> ended;
      for (Worker& worker : workers_) {
        worker.pass_on_output();
        if (const auto end = worker.reap()) {
          // Of those that ended at the same time, a killed one is the cause: the others fail
          // because it is gone.
          ended.emplace(end->signal != 0 ? ended.begin() : ended.end(), worker.rank(), *end);
        }
      }
      for (const auto& [rank, end] : ended) {
        note_end(rank, end);
      }
      if (deadline_ && Clock::now() >= *deadline_) {
        send(SIGKILL);
        deadline_.reset();
      }
    }
    return end_;
  }

 private:
  bool is_running() const {
    return std::any_of(
        workers_.begin(), workers_.end(), [](const Worker& worker) { return worker.is_running(); });
  }

  void send(int signal) const {
    for (const Worker& worker : workers_) {
      worker.send(signal);
    }
  }

  // Waits until there is something to do. poll() ignores negative descriptors.
  void sleep() const {
    std::vector<pollfd> sources{{inbox_.descriptor(), POLLIN, 0}};
    for (const Worker& worker : workers_) {
      for (const int output : worker.outputs()) {
        sources.push_back({output, POLLIN, 0});
      }
    }
    int timeout = -1;
    if (deadline_) {
      const auto left = std::chrono::ceil<milliseconds>(*deadline_ - Clock::now());
      timeout = static_cast<int>(std::clamp<int64_t>(left.count(), 0, 60'000));
    }
    TORCH_CHECK(::poll(sources.data(), sources.size(), timeout) >= 0 || errno == EINTR,
                "[launch] poll: ",
                std::strerror(errno));
  }

  void pass_on_signals() {
    for (const int signal : inbox_.take()) {
      if (signal == SIGHUP && !end_.was_stopped) {
        send(SIGTERM);  // once: closing a terminal may send several
      } else if (signal == SIGINT || signal == SIGTERM) {
        send(signal);
      }
      end_.was_stopped |= signal == SIGHUP || signal == SIGINT || signal == SIGTERM;
    }
  }

  void note_end(int64_t rank, const WorkerEnd& end) {
    if (end_.failed_rank) {
      if (deadline_) {
        deadline_ = std::min(*deadline_, Clock::now() + grace_ / 6);
      }
    } else if (end.exit_code != 0) {
      end_.failed_rank = rank;
      end_.end = end;
      send(SIGTERM);
      deadline_ = Clock::now() + grace_;
    }
  }

  Orphans orphans_;  // destroyed after the workers
  std::vector<Worker> workers_;
  milliseconds grace_;
  const SignalInbox& inbox_;
  GroupEnd end_;
  std::optional<Clock::time_point> deadline_;  // when the rest is killed; unset: not yet
};

}  // namespace

GroupEnd run_group(const std::vector<WorkerCommand>& commands,
                   int64_t first_rank,
                   milliseconds grace,
                   const SignalInbox& inbox) {
  Group group(grace, inbox);
  for (const WorkerCommand& command : commands) {
    group.start(first_rank++, command);
  }
  return group.wait();
}

}  // namespace reprise::app
