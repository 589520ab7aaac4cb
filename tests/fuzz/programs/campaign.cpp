#include "fuzz/programs/campaign.h"

#include "fuzz/programs/outcome.h"
#include "fuzz/programs/print.h"
#include "fuzz/programs/running_seed.h"
#include "fuzz/programs/shrink.h"

#include <algorithm>
#include <chrono>
#include <iomanip>
#include <iostream>
#include <set>
#include <sstream>

namespace reprise::fuzz {
namespace {

using Clock = std::chrono::steady_clock;

/// Failures of one cause mostly shrink to programs that differ in names alone.
std::string shape_of_text(const std::string& text) {
  std::string shape;
  std::copy_if(text.begin(), text.end(), std::back_inserter(shape), [](char c) {
    return c < '0' || c > '9';
  });
  return shape;
}

class Campaign {
 public:
  explicit Campaign(const CampaignOptions& options) : options_(options) {}

  Summary run() {
    const auto start = Clock::now();
    const auto elapsed = [&] {
      return std::chrono::duration<double>(Clock::now() - start).count();
    };
    for (uint64_t i = 0; i < options_.programs; ++i) {
      if ((options_.seconds > 0 && elapsed() > options_.seconds) ||
          found_.size() >= options_.most_failures) {
        break;
      }
      run_seed(options_.seed + i * static_cast<uint64_t>(options_.jobs));
    }
    summary_.seconds = elapsed();
    return summary_;
  }

 private:
  void run_seed(uint64_t seed) {
    const RunningSeed running(seed);
    const Program program = generate(seed, options_.generate);
    if (options_.is_verbose) {
      std::cout << program_text(program, "Before it ran") << std::endl;
    }
    Outcome outcome = judge(program);
    for (uint64_t i = 1; i < options_.repeats && !outcome.is_failure(); ++i) {
      outcome = judge(program);
    }
    ++summary_.programs;
    switch (outcome.verdict) {
      case Verdict::Equal:
        ++summary_.equal;
        break;
      case Verdict::Refused:
        ++summary_.refused;
        if (++summary_.refused_kinds[message_kind(outcome.detail)] == 1 && options_.shows_refused) {
          show(program, outcome);
        }
        break;
      case Verdict::Invalid:
        ++summary_.invalid;
        ++summary_.invalid_kinds[message_kind(outcome.detail).substr(0, 70)];
        break;
      case Verdict::Different:
      case Verdict::WrongError:
        ++summary_.different;
        show(program, outcome);
    }
    if (options_.is_verbose) {
      std::cout << "seed " << seed << ": " << (outcome.is_failure() ? "DIFFERENT " : "")
                << outcome.detail << std::endl;
    }
  }

  /// Prints the smallest program with the same outcome, unless one like it was printed.
  void show(const Program& program, const Outcome& outcome) {
    const auto kind = message_kind(outcome.detail);
    const Program smallest = shrink(program, [&](const Program& candidate) {
      const auto again = judge(candidate);
      return again.verdict == outcome.verdict &&
             (again.verdict == Verdict::Different || message_kind(again.detail) == kind);
    });
    const auto text = function_text(smallest);
    if (found_.insert(shape_of_text(text)).second) {
      const std::string what = outcome.verdict == Verdict::Refused      ? "Refused: "
                               : outcome.verdict == Verdict::WrongError ? "Throws: "
                                                                        : "DIFFERENT: ";
      std::cout << program_text(smallest, what + message_kind(judge(smallest).detail)) << std::endl;
    }
  }

  const CampaignOptions options_;
  Summary summary_;
  std::set<std::string> found_;
};

}  // namespace

Summary run_campaign(const CampaignOptions& options) {
  return Campaign(options).run();
}

void Summary::add(const Summary& other) {
  programs += other.programs;
  equal += other.equal;
  refused += other.refused;
  different += other.different;
  invalid += other.invalid;
  for (const auto& [kind, count] : other.refused_kinds) {
    refused_kinds[kind] += count;
  }
  for (const auto& [kind, count] : other.invalid_kinds) {
    invalid_kinds[kind] += count;
  }
  seconds = std::max(seconds, other.seconds);
}

double Summary::refused_share() const {
  const auto valid = programs - invalid;
  return valid == 0 ? 0 : static_cast<double>(refused) / static_cast<double>(valid);
}

bool Summary::is_success() const {
  return different == 0 && (programs < 200 || refused_share() <= kMostRefused);
}

std::string Summary::text() const {
  std::ostringstream text;
  text << std::fixed << std::setprecision(1);
  const auto share = [this](uint64_t count) {
    return programs == 0 ? 0.0 : 100.0 * static_cast<double>(count) / static_cast<double>(programs);
  };
  text << programs << " programs in " << seconds << " s ("
       << (seconds > 0 ? static_cast<double>(programs) / seconds : 0.0) << "/s)\n"
       << "  equal      " << equal << " (" << share(equal) << " %)\n"
       << "  refused    " << refused << " (" << 100 * refused_share()
       << " % of those that run without regions; at most " << 100 * kMostRefused << " %)\n"
       << "  different  " << different << "\n"
       << "  discarded  " << invalid << " (" << share(invalid)
       << " %), which throw without regions too\n";
  const auto list = [&text](const char* title, const std::map<std::string, uint64_t>& kinds) {
    std::vector<std::pair<uint64_t, std::string>> sorted;
    for (const auto& [kind, count] : kinds) {
      sorted.emplace_back(count, kind);
    }
    std::sort(sorted.rbegin(), sorted.rend());
    text << (sorted.empty() ? "" : title);
    for (const auto& [count, kind] : sorted) {
      text << "  " << std::setw(6) << count << "  " << kind << "\n";
    }
  };
  list("refused, by message:\n", refused_kinds);
  list("discarded, by message:\n", invalid_kinds);
  return text.str();
}

}  // namespace reprise::fuzz
