// A campaign in several processes, and what happens when one of them crashes.
#include "fuzz/programs/campaign.h"
#include "fuzz/programs/running_seed.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace reprise::fuzz {
namespace {

constexpr unsigned kSecondsPerProgram = 120;

std::atomic<uint64_t> running_seed{0};

void on_signal(int signal) {
  // Only what is safe in a signal handler: no allocation, no streams.
  std::array<char, 200> text{};
  size_t length = 0;
  const auto put = [&](const char* word) {
    while (*word != '\0' && length < text.size()) {
      text[length++] = *word++;
    }
  };
  const auto put_number = [&](uint64_t number) {
    std::array<char, 21> digits{};
    size_t first = digits.size() - 1;
    do {
      digits[--first] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number > 0);
    put(&digits[first]);
  };
  put(signal == SIGALRM ? "\nprogram_fuzz: no end" : "\nprogram_fuzz: signal ");
  if (signal != SIGALRM) {
    put_number(static_cast<uint64_t>(signal));
  }
  put(" in the program of --seed ");
  put_number(running_seed.load());
  put(" (--programs 1 --verbose shows it)\n");
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), length);
  _exit(128 + signal);
}

void put(std::ostream& out, const std::map<std::string, uint64_t>& kinds) {
  out << kinds.size() << "\n";
  for (const auto& [kind, count] : kinds) {
    out << count << " " << kind << "\n";
  }
}

void get(std::istream& in, std::map<std::string, uint64_t>& kinds) {
  size_t size = 0;
  in >> size;
  for (size_t i = 0; i < size; ++i) {
    uint64_t count = 0;
    std::string kind;
    in >> count;
    in.get();
    std::getline(in, kind);
    kinds[kind] += count;
  }
}

std::string encoded(const Summary& summary) {
  std::ostringstream out;
  out << summary.programs << " " << summary.equal << " " << summary.refused << " "
      << summary.different << " " << summary.invalid << " " << summary.seconds << "\n";
  put(out, summary.refused_kinds);
  put(out, summary.invalid_kinds);
  return out.str();
}

Summary decoded(const std::string& text) {
  Summary summary;
  std::istringstream in(text);
  in >> summary.programs >> summary.equal >> summary.refused >> summary.different >>
      summary.invalid >> summary.seconds;
  get(in, summary.refused_kinds);
  get(in, summary.invalid_kinds);
  return summary;
}

struct Child {
  pid_t process;
  int pipe;
};

Child start(const CampaignOptions& options) {
  std::array<int, 2> ends{};
  TORCH_CHECK(pipe(ends.data()) == 0, "[fuzz] no pipe");
  const pid_t process = fork();
  TORCH_CHECK(process >= 0, "[fuzz] no process");
  if (process > 0) {
    close(ends[1]);
    return {process, ends[0]};
  }
  close(ends[0]);
  // PyTorch replaces its thread pool at the first use after a fork, without a lock: two threads of
  // a program that get there at once find none.
  at::set_num_threads(at::get_num_threads());
  const auto text = encoded(run_campaign(options));
  [[maybe_unused]] const auto written = write(ends[1], text.data(), text.size());
  std::cout.flush();
  _exit(0);
}

std::string read_all(int pipe) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t count = 0; (count = read(pipe, buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<size_t>(count));
  }
  close(pipe);
  return text;
}

}  // namespace

RunningSeed::RunningSeed(uint64_t seed) {
  running_seed.store(seed);
  alarm(kSecondsPerProgram);
}

RunningSeed::~RunningSeed() {
  alarm(0);
}

void name_seed_on_signals() {
  for (const int signal : {SIGABRT, SIGALRM}) {
    std::signal(signal, on_signal);
  }
#ifndef REPRISE_SANITIZED
  // A sanitizer has handlers of its own for these, which say more.
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    std::signal(signal, on_signal);
  }
#endif
}

bool run_in_processes(const CampaignOptions& options, Summary& summary) {
  std::vector<Child> children;
  for (int job = 0; job < options.jobs; ++job) {
    CampaignOptions share = options;
    share.seed = options.seed + static_cast<uint64_t>(job);
    const auto jobs = static_cast<uint64_t>(options.jobs);
    share.programs = (options.programs + jobs - 1 - static_cast<uint64_t>(job)) / jobs;
    children.push_back(start(share));
  }
  bool are_well = true;
  for (const auto& child : children) {
    summary.add(decoded(read_all(child.pipe)));
    int status = 0;
    waitpid(child.process, &status, 0);
    are_well = are_well && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return are_well;
}

}  // namespace reprise::fuzz
