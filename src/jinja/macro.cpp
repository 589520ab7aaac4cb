// Calling a macro.
#include "jinja/macro.h"

#include "jinja/values/repr.h"

#include <algorithm>

namespace reprise::jinja {

void MacroFunction::write_repr(Runtime&, TextBuilder& out) {
  out.add("<Macro " + quote(definition_.name) + ">");
}

std::optional<Value> MacroFunction::attribute(Runtime& runtime, std::string_view name) {
  if (name == "name") {
    return runtime.text(definition_.name);
  }
  if (name == "arguments") {
    ItemBuilder names(runtime);
    for (const std::string& parameter : definition_.parameters) {
      runtime.step();
      names.add(runtime.text(parameter));
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
  runtime.charge(parameters.size() + arguments.keyword.size(), 2 * sizeof(std::optional<Value>));
  std::vector<const std::pair<std::string, Value>*> keyword;  // those that nothing took yet
  for (const auto& entry : arguments.keyword) {
    keyword.push_back(&entry);
  }
  const auto take = [&](std::string_view name) -> std::optional<Value> {
    runtime.step(keyword.size());
    const auto found = std::find_if(keyword.begin(), keyword.end(), [&](const auto* entry) {
      return is_same_text(runtime, entry->first, name);
    });
    if (found == keyword.end()) {
      return std::nullopt;
    }
    std::optional<Value> value = (*found)->second;
    keyword.erase(found);
    return value;
  };
  runtime.step(parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    bound.values.push_back(i < arguments.positional.size()
                               ? std::optional<Value>(arguments.positional[i])
                               : take(parameters[i]));
  }
  if (definition_.uses_caller) {
    bound.special.emplace_back("caller",
                               take("caller").value_or(runtime.undefined("No caller defined")));
  }
  if (definition_.uses_kwargs) {
    Dict rest;
    for (const auto* entry : keyword) {
      rest.set(runtime, runtime.text(entry->first), entry->second);
    }
    bound.special.emplace_back("kwargs", runtime.dict(std::move(rest)));
  } else if (!keyword.empty()) {
    throw Failure("macro " + quote(definition_.name) + " takes no keyword argument " +
                  quote(keyword.front()->first));
  }
  const size_t taken = std::min(arguments.positional.size(), parameters.size());
  if (definition_.uses_varargs) {
    ItemBuilder rest(runtime);
    for (size_t i = taken; i < arguments.positional.size(); ++i) {
      rest.add(arguments.positional[i]);
    }
    bound.special.emplace_back("varargs", runtime.tuple(std::move(rest)));
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
