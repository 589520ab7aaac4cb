// A JSON row accessed by the roles of its keys. Error messages use the key names of the file.
#pragma once

#include <reprise/io/json.h>

#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::data {

/// The roles of keys: "prompt", "completion", "chosen", ... A file may use other names.
const std::vector<std::string>& known_roles();

/// A value as text for error messages, shortened if long. Never throws, even for invalid UTF-8.
std::string excerpt(const Json& value);

class RowFields {
 public:
  /// `keys` maps roles to the names that the file uses. Keeps references to both. Throws unless
  /// `row` is an object.
  RowFields(const Json& row, const std::map<std::string, std::string>& keys);

  bool has(std::string_view role) const;  ///< present and not null
  bool has_all(std::initializer_list<std::string_view> roles) const;
  const Json& value(std::string_view role) const;  ///< throws if missing or null
  const Json& list(std::string_view role) const;   ///< throws unless a list that is not empty

  /// Roles that are named in `keys` and whose value has not been read.
  std::vector<std::string> unread() const;

  /// The key name for error messages, in quotes: "question".
  std::string name(std::string_view role) const;

  /// Throws: `role` is not what was `expected`.
  [[noreturn]] void refuse(std::string_view role, const std::string& expected) const;
  /// Throws: the row follows none of the `conventions` of `objective`.
  [[noreturn]] void refuse_row(const std::string& objective,
                               const std::vector<std::string>& conventions) const;

 private:
  std::string key(std::string_view role) const;

  const Json& row_;
  const std::map<std::string, std::string>& keys_;
  mutable std::set<std::string, std::less<>> read_;  // subset of the roles in keys_
};

}  // namespace reprise::data
