// The growth of this process's peak resident set.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

/// Growth of the peak resident set since construction.
class PeakGrowth {
 public:
  PeakGrowth() {
    forget();
    before_ = resident("VmRSS:");
  }
  /// Resets the peak, but not the baseline.
  static void forget() { std::ofstream("/proc/self/clear_refs") << "5"; }
  int64_t bytes() const { return resident("VmHWM:") - before_; }

 private:
  static int64_t resident(const std::string& field) {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
      if (word == field) {
        int64_t kilobytes = 0;
        status >> kilobytes;
        return kilobytes * 1024;
      }
    }
    return 0;
  }

  int64_t before_ = 0;
};
