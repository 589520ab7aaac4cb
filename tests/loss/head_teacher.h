// A teacher for a small head, and the divergences that are tried with it.
#pragma once

#include "loss/head_case.h"

#include <reprise/loss/head.h>

#include <cstdint>
#include <vector>

namespace reprise::testing {

/// A teacher of another width for the same tokens.
inline HeadCase make_teacher(const HeadCase& student, int64_t vocabulary) {
  auto teacher = make_case({.rows = student.targets.size(0),
                            .length = student.targets.size(1),
                            .width = 5,
                            .vocabulary = vocabulary,
                            .type = student.hidden.scalar_type(),
                            .device = student.hidden.device().type()});
  teacher.targets = student.targets;
  return teacher;
}

/// Every kind, both ends of Jensen's range and its middle, with and without a temperature.
inline const std::vector<DivergenceOptions>& divergences() {
  using Kind = DivergenceOptions::Kind;
  static const std::vector<DivergenceOptions> list{
      {.kind = Kind::CrossEntropy},
      {.kind = Kind::CrossEntropy, .temperature = 0.7},
      {.kind = Kind::Jensen, .beta = 0.0},
      {.kind = Kind::Jensen, .beta = 0.3, .temperature = 1.5},
      {.kind = Kind::Jensen, .beta = 0.5},
      {.kind = Kind::Jensen, .beta = 1.0, .temperature = 0.9}};
  return list;
}

}  // namespace reprise::testing
