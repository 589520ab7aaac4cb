// What comes of a program: it is run without regions and with them, and compared bit by bit.
#pragma once

#include "fuzz/programs/program.h"

#include <string>

namespace reprise::fuzz {

enum class Verdict {
  Equal,
  Refused,     ///< the engine threw an error that names its cause
  Different,   ///< other bits
  WrongError,  ///< with regions, an error that is not the engine's
  Invalid,     ///< throws without regions as well, or is not deterministic by itself
};

struct Outcome {
  Verdict verdict = Verdict::Equal;
  /// What differs, or the error's message.
  std::string detail;

  bool is_failure() const {
    return verdict == Verdict::Different || verdict == Verdict::WrongError;
  }
};

/// Runs the program both ways. `fault` as in RunOptions.
Outcome judge(const Program& program, int fault = -1);

/// A message of the engine without what varies between programs: numbers, shapes, names.
std::string message_kind(const std::string& message);

}  // namespace reprise::fuzz
