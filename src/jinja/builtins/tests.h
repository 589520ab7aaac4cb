// Tests: {% if value is name(arguments) %}.
#pragma once

#include "jinja/runtime.h"

#include <string_view>

namespace reprise::jinja {

struct Test {
  std::string_view name;
  bool (*apply)(Runtime& runtime, const Value& subject, const Arguments& arguments);
};

/// Null if there is no test of this name.
const Test* find_test(std::string_view name);

}  // namespace reprise::jinja
