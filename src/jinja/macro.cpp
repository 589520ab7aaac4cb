// Calling a macro.
#include "jinja/macro.h"

#include "jinja/values/repr.h"

#include <algorithm>

namespace reprise::jinja {

std::string MacroFunction::repr(Runtime&) {
  return "<Macro " + quote(definition_.name) + ">";
}

std::optional<Value> MacroFunction::attribute(Runtime& runtime, std::string_view name) {
  if (name == "name") {
    return runtime.text(definition_.name);
  }
  if (name == "arguments") {
    Values names;
    for (const std::string& parameter : definition_.parameters) {
      names.push_back(runtime.text(parameter));
    }
    return runtime.tuple(std::move(names));
  }
  if (name == "caller") {
    return Value(definition_.uses_caller);
  }
  if (name == "catch_kwargs") {
    return Value(definition_.uses_kwargs);
  }
  if (name == "catch_varargs") {
    return Value(definition_.uses_varargs);
  }
  return std::nullopt;
}

MacroArguments MacroFunction::bind(Runtime& runtime, const Arguments& arguments) const {
  const auto& parameters = definition_.parameters;
  MacroArguments bound;
  auto keyword = arguments.keyword;
  const auto take = [&](const std::string& name) -> std::optional<Value> {
    const auto found = std::find_if(
        keyword.begin(), keyword.end(), [&](const auto& entry) { return entry.first == name; });
    if (found == keyword.end()) {
      return std::nullopt;
    }
    std::optional<Value> value = std::move(found->second);
    keyword.erase(found);
    return value;
  };
  for (size_t i = 0; i < parameters.size(); ++i) {
    bound.values.push_back(i < arguments.positional.size()
                               ? std::optional<Value>(arguments.positional[i])
                               : take(parameters[i]));
  }
  if (definition_.uses_caller) {
    bound.special.emplace_back("caller",
                               take("caller").value_or(Value::undefined("No caller defined")));
  }
  if (definition_.uses_kwargs) {
    Dict rest;
    for (const auto& [name, value] : keyword) {
      rest.set(Value::text(name), value);
    }
    bound.special.emplace_back("kwargs", runtime.dict(std::move(rest)));
  } else if (!keyword.empty()) {
    throw Failure("macro " + quote(definition_.name) + " takes no keyword argument " +
                  quote(keyword.front().first));
  }
  const size_t taken = std::min(arguments.positional.size(), parameters.size());
  if (definition_.uses_varargs) {
    bound.special.emplace_back(
        "varargs",
        runtime.tuple(Values(arguments.positional.begin() + static_cast<std::ptrdiff_t>(taken),
                             arguments.positional.end())));
  } else if (arguments.positional.size() > taken) {
    throw Failure("macro " + quote(definition_.name) + " takes not more than " +
                  std::to_string(parameters.size()) + " argument(s)");
  }
  return bound;
}

Value MacroFunction::call(Runtime& runtime, const Arguments& arguments) {
  return evaluator_.run_macro(definition_, frame_, bind(runtime, arguments));
}

}  // namespace reprise::jinja
