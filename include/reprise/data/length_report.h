// How long examples are before truncation, and what it takes away.
#pragma once

#include <reprise/export.h>
#include <reprise/io/json.h>

#include <cstdint>
#include <map>

namespace reprise {

/// One example before truncation, in tokens.
struct ExampleLength {
  int64_t longest = 0;  ///< its longest sequence, which the limit applies to
  int64_t tokens = 0;   ///< all of its sequences
  int64_t lost = 0;     ///< how many of them truncation takes away
};

struct REPRISE_API LengthReport {
  int64_t examples = 0;
  int64_t truncated = 0;               ///< examples that lose tokens
  int64_t tokens = 0;                  ///< of all examples, before truncation
  int64_t lost = 0;                    ///< of them, taken away
  std::map<int64_t, int64_t> lengths;  ///< examples by length, which is rounded up above 128

  void add(const ExampleLength& example);
  void add(const LengthReport& other);
  /// The least length that at least this share of examples does not exceed, rounded up as
  /// `lengths` are. 0: there are no examples.
  int64_t length_for(double share) const;

  Json to_json() const;
  /// Throws Json::exception if `json` is not from to_json().
  static LengthReport from_json(const Json& json);
};

}  // namespace reprise
