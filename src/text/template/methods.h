// Methods of texts, lists, tuples and dicts: those that change nothing.
#pragma once

#include "text/template/runtime.h"

#include <span>
#include <string_view>

namespace reprise::jinja {

struct Method {
  std::string_view name;
  Value (*apply)(Runtime& runtime, const Value& self, const Arguments& arguments);
};

/// Null if values of this kind have no such method here.
const Method* find_method(const Value& self, std::string_view name);

/// Calls it; what it takes to walk over a text is counted as steps.
Value call_method(Runtime& runtime,
                  const Method& method,
                  const Value& self,
                  const Arguments& arguments);

/// append, update and their like, which the sandbox refuses.
bool is_mutating_method(const Value& self, std::string_view name);

/// Python has it, but we do not: better refused by name than taken for undefined.
bool is_python_attribute(const Value& self, std::string_view name);

// The methods of texts, one table a file.
std::span<const Method> string_methods();
std::span<const Method> string_search_methods();

}  // namespace reprise::jinja
