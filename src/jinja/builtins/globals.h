// The functions every template can call: range, dict, namespace, cycler, joiner, raise_exception,
// strftime_now.
#pragma once

#include "jinja/runtime.h"

#include <optional>
#include <string_view>

namespace reprise::jinja {

std::optional<Value> find_global(Runtime& runtime, std::string_view name);

}  // namespace reprise::jinja
