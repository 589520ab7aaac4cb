// Argument binding.
#include "jinja/arguments.h"

#include "jinja/values/operators.h"
#include "jinja/values/repr.h"

#include <algorithm>

namespace reprise::jinja {

ArgumentReader::ArgumentReader(Budget& budget,
                               std::string_view function,
                               const Arguments& arguments,
                               std::initializer_list<std::string_view> names)
    : budget_(budget), function_(function), arguments_(arguments), names_(names) {
  if (arguments.positional.size() > names.size()) {
    throw Failure(function_ + "() takes at most " + std::to_string(names.size()) +
                  " arguments, found " + std::to_string(arguments.positional.size()));
  }
  for (const auto& [name, value] : arguments.keyword) {
    const auto known = std::find(names_.begin(), names_.end(), name);
    if (known == names_.end()) {
      throw Failure(function_ + "() got an unexpected keyword argument " + quote(name));
    }
    if (static_cast<size_t>(known - names_.begin()) < arguments.positional.size()) {
      throw Failure(function_ + "() got multiple values for argument '" + name + "'");
    }
  }
}

const Value* ArgumentReader::next() {
  const size_t at = next_++;
  if (at < arguments_.positional.size()) {
    return &arguments_.positional[at];
  }
  for (const auto& [name, value] : arguments_.keyword) {
    if (name == names_[at]) {
      return &value;
    }
  }
  return nullptr;
}

std::optional<Value> ArgumentReader::optional() {
  const Value* value = next();
  return value != nullptr ? std::optional<Value>(*value) : std::nullopt;
}

Value ArgumentReader::required() {
  const std::string_view name = names_[next_];
  if (auto value = optional()) {
    return *std::move(value);
  }
  fail_missing(name);
}

void ArgumentReader::fail_missing(std::string_view name) const {
  throw Failure(function_ + "() missing required argument '" +
                std::string(name.substr(name.starts_with('/') ? 1 : 0)) + "'");
}

int64_t ArgumentReader::required_int() {
  return to_index(required(), function_);
}

int64_t ArgumentReader::optional_int(int64_t otherwise) {
  const auto value = optional();
  return value ? to_index(*value, function_) : otherwise;
}

bool ArgumentReader::optional_flag(bool otherwise) {
  const auto value = optional();
  return value ? is_true(*value) : otherwise;
}

std::string_view ArgumentReader::required_text() {
  const std::string_view name = names_[next_];
  const Value* value = next();
  if (value == nullptr) {
    fail_missing(name);
  }
  if (!value->is_text()) {
    throw Failure(function_ + "() expects a string, found '" + value->type_name() + "'");
  }
  return value->as_text(budget_);
}

std::optional<std::string_view> ArgumentReader::optional_text() {
  const Value* value = next();
  if (value == nullptr || value->is_none()) {
    return std::nullopt;
  }
  if (!value->is_text()) {
    throw Failure(function_ + "() expects a string, found '" + value->type_name() + "'");
  }
  return value->as_text(budget_);
}

void refuse_arguments(std::string_view function, const Arguments& arguments) {
  if (!arguments.positional.empty()) {
    throw Failure(std::string(function) + "() takes no arguments, found " +
                  std::to_string(arguments.positional.size()));
  }
  if (!arguments.keyword.empty()) {
    throw Failure(std::string(function) + "() got an unexpected keyword argument " +
                  quote(arguments.keyword[0].first));
  }
}

int64_t to_index(const Value& value, std::string_view function) {
  if (!value.is_integral()) {
    throw Failure(std::string(function) + "() expects an integer, found '" + value.type_name() +
                  "'");
  }
  return value.as_int();
}

}  // namespace reprise::jinja
