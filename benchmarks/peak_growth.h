// How far the resident set of this process rises.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

/// Growth of the peak since construction.
class PeakGrowth {
 public:
  PeakGrowth() {
    forget();
    before_ = resident("VmRSS:");
  }
  /// Peaks so far do not count any more; what they are compared with stays.
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
