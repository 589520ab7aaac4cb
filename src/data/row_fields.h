// A JSON row by the roles of its keys, with errors that call a key what the file calls it.
#pragma once

#include <reprise/io/json.h>

#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::detail {

/// What rows are made of: "prompt", "completion", "chosen", ... A file may call them otherwise.
const std::vector<std::string>& known_roles();

/// A value for a message, not all of a long one. Never throws, whatever its strings hold.
std::string shown(const Json& value);

class RowFields {
 public:
  /// `keys` maps roles to the names that the file uses. Both are referred to, not copied. Throws
  /// unless `row` is an object.
  RowFields(const Json& row, const std::map<std::string, std::string>& keys);

  bool has(std::string_view role) const;  ///< present and not null
  bool has_all(std::initializer_list<std::string_view> roles) const;
  const Json& value(std::string_view role) const;  ///< throws if missing or null
  const Json& list(std::string_view role) const;   ///< throws unless a list that is not empty

  /// Roles to which `keys` gives a name and whose value nobody has asked for.
  std::vector<std::string> unread() const;

  /// How messages call it: "question" in quotes.
  std::string name(std::string_view role) const;

  /// Throws: `role` was to be `expected`, and is something else.
  [[noreturn]] void refuse(std::string_view role, const std::string& expected) const;
  /// Throws: the row is none of the `conventions` that `objective` takes.
  [[noreturn]] void refuse_row(const std::string& objective,
                               const std::vector<std::string>& conventions) const;

 private:
  std::string key(std::string_view role) const;

  const Json& row_;
  const std::map<std::string, std::string>& keys_;
  mutable std::set<std::string, std::less<>> read_;  // of the roles in keys_
};

}  // namespace reprise::detail
