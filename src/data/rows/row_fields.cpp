// Access to the keys of a row under the names that the file uses, and the error messages.
#include "data/rows/row_fields.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>

namespace reprise::data {
std::string excerpt(const Json& value) {
  constexpr size_t kLongest = 60;
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kLongest) {
    const auto is_inside = [](char byte) { return (static_cast<unsigned char>(byte) >> 6U) == 2U; };
    size_t length = kLongest;  // or less, to end at a UTF-8 character boundary
    while (is_inside(text[length])) {
      --length;
    }
    text.resize(length);
    text += "...";
  }
  return text;
}

const std::vector<std::string>& known_roles() {
  static const std::vector<std::string> roles = {"text",
                                                 "messages",
                                                 "conversations",
                                                 "prompt",
                                                 "completion",
                                                 "chosen",
                                                 "rejected",
                                                 "context",
                                                 "input",
                                                 "output",
                                                 "label",
                                                 "margin",
                                                 "completions",
                                                 "labels",
                                                 "responses",
                                                 "pairs",
                                                 "tools",
                                                 "sft_target",
                                                 "chat_template_kwargs"};
  return roles;
}

RowFields::RowFields(const Json& row, const std::map<std::string, std::string>& keys)
    : row_(row), keys_(keys) {
  TORCH_CHECK(row.is_object(),
              "a row must be a JSON object such as {\"text\": \"...\"}, found ",
              kind_of(row));
}

std::string RowFields::key(std::string_view role) const {
  const auto renamed = keys_.find(std::string(role));
  return renamed == keys_.end() ? std::string(role) : renamed->second;
}

std::string RowFields::name(std::string_view role) const {
  std::string quoted = "\"";
  quoted += key(role);
  quoted += "\"";
  return quoted;
}

bool RowFields::has(std::string_view role) const {
  const auto found = row_.find(key(role));
  return found != row_.end() && !found->is_null();
}

bool RowFields::has_all(std::initializer_list<std::string_view> roles) const {
  return std::all_of(roles.begin(), roles.end(), [&](auto role) { return has(role); });
}

std::vector<std::string> RowFields::unread() const {
  std::vector<std::string> roles;
  for (const auto& [role, name] : keys_) {
    if (!read_.contains(role)) {
      roles.push_back(role);
    }
  }
  return roles;
}

const Json& RowFields::value(std::string_view role) const {
  if (!keys_.empty()) {
    read_.emplace(role);
  }
  const auto found = row_.find(key(role));
  TORCH_CHECK(found != row_.end(), name(role), " is missing");
  TORCH_CHECK(!found->is_null(), name(role), " is null");
  return *found;
}

const Json& RowFields::list(std::string_view role) const {
  const Json& found = value(role);
  if (!found.is_array() || found.empty()) {
    refuse(role, "a list with at least one element");
  }
  return found;
}

void RowFields::refuse(std::string_view role, const std::string& expected) const {
  const Json& found = value(role);
  TORCH_CHECK(
      false, name(role), ": expected ", expected, ", found ", kind_of(found), ": ", excerpt(found));
}

void RowFields::refuse_row(const std::string& objective,
                           const std::vector<std::string>& conventions) const {
  std::vector<std::string> keys;
  for (const auto& [found, value] : row_.items()) {
    keys.push_back(value.is_null() ? found + " (null)" : found);
  }
  TORCH_CHECK(false,
              "not a row for ",
              objective,
              ". Its keys are: ",
              keys.empty() ? "none" : c10::Join(", ", keys),
              ". Expected the keys of one of: ",
              c10::Join("; ", conventions),
              ". Other names of keys can be given as options");
}

}  // namespace reprise::data
