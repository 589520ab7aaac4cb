// The named ranges that are open on this thread.
#pragma once

#include <reprise/named_range.h>

#include <string_view>

namespace reprise::detail {

struct NamedRanges {
  /// The names of the open ranges, joined by "/"; empty if there are none. Valid as long as the
  /// innermost one is open.
  static std::string_view path();
  /// Replaces the innermost range; returns the one before.
  static NamedRange* exchange(NamedRange* innermost);
};

/// A region's function runs in its scope: ranges around the region are not open inside.
class NoRangesGuard {
 public:
  NoRangesGuard() : outside_(NamedRanges::exchange(nullptr)) {}
  ~NoRangesGuard() { NamedRanges::exchange(outside_); }
  NoRangesGuard(const NoRangesGuard&) = delete;
  NoRangesGuard& operator=(const NoRangesGuard&) = delete;

 private:
  NamedRange* outside_;
};

}  // namespace reprise::detail
