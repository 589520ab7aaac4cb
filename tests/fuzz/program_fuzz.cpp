// Random small programs, run without regions and with them, and compared bit by bit.
//
//   program_fuzz [--seed S] [--programs N] [--seconds T] [--jobs J] [--verbose]
//
//   --failures N            stop after so many different failures (default 3)
//   --repeats N             run each program so often, to find what depends on time
//   --without name,name…    leave operators or features out; --with: put in what is left out by
//   default
//   --show-refused          print the smallest program of each kind that regions refuse
//   --print                 write the programs as C++ instead of running them
//
// A program that differs is made small and printed as C++. Exit code 1: one differed or crashed, or
// regions refuse too many.
#include "fuzz/programs/campaign.h"
#include "fuzz/programs/print.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <cstdlib>
#include <exception>
#include <iostream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

namespace {

reprise::fuzz::CampaignOptions parse(const std::vector<std::string>& arguments, bool& prints) {
  reprise::fuzz::CampaignOptions options;
  bool has_programs = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto& flag = arguments[i];
    const auto value = [&]() -> const std::string& {
      TORCH_CHECK(i + 1 < arguments.size(), flag, " needs a value");
      return arguments[++i];
    };
    if (flag == "--seed") {
      options.seed = std::stoull(value());
    } else if (flag == "--programs") {
      options.programs = std::stoull(value());
      has_programs = true;
    } else if (flag == "--seconds") {
      options.seconds = std::stod(value());
    } else if (flag == "--jobs") {
      options.jobs = std::max(1, std::stoi(value()));
    } else if (flag == "--repeats") {
      options.repeats = std::stoull(value());
    } else if (flag == "--failures") {
      options.most_failures = std::stoull(value());
    } else if (flag == "--without" || flag == "--with") {
      auto& list = flag == "--with" ? options.generate.with : options.generate.without;
      std::istringstream names(value());
      for (std::string name; std::getline(names, name, ',');) {
        list.push_back(name);
      }
    } else if (flag == "--print") {
      prints = true;
    } else if (flag == "--verbose") {
      options.is_verbose = true;
    } else if (flag == "--show-refused") {
      options.shows_refused = true;
    } else {
      TORCH_CHECK(false, "unknown argument ", flag);
    }
  }
  if (options.seconds > 0 && !has_programs) {
    options.programs = std::numeric_limits<uint64_t>::max() / 2;
  }
  return options;
}

/// Whether the variable was missing, and is set now.
bool setenv_if_missing(const char* name, const char* value) {
  return std::getenv(name) == nullptr && setenv(name, value, /*overwrite=*/0) == 0;
}

void print(const reprise::fuzz::CampaignOptions& options) {
  std::vector<reprise::fuzz::Program> programs;
  for (uint64_t i = 0; i < options.programs; ++i) {
    programs.push_back(reprise::fuzz::generate(options.seed + i, options.generate));
  }
  std::cout << reprise::fuzz::programs_text(programs);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    bool prints = false;
    const auto options = parse(std::vector<std::string>(argv + 1, argv + argc), prints);
    if (prints) {
      print(options);
      return 0;
    }
    // Some virtual CPUs announce AMX and fault on it; an explicit setting of the user's wins.
    setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16", /*overwrite=*/0);
    // The tensors are tiny, a forked process has no threads, and threads that programs start would
    // each bring a team of their own. OpenMP reads its settings before main().
    if (setenv_if_missing("OMP_NUM_THREADS", "1")) {
      execv("/proc/self/exe", argv);
    }
    at::set_num_threads(1);
    reprise::fuzz::name_seed_on_signals();
    reprise::fuzz::Summary summary;
    bool has_crashed = false;
    if (options.jobs == 1) {
      summary = reprise::fuzz::run_campaign(options);
    } else {
      has_crashed = !reprise::fuzz::run_in_processes(options, summary);
    }
    std::cout << "seeds from " << options.seed << ": " << summary.text()
              << (has_crashed ? "a process crashed\n" : "");
    return summary.is_success() && !has_crashed ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << "program_fuzz: " << error.what() << "\n";
    return 2;
  }
}
