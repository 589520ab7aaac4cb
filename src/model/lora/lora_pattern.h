// Regular expressions over module paths, with the syntax of Python's re.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace reprise {

/// Bounded: an expression that is too long, or whose search takes too long, is an error.
class ModulePattern {
 public:
  /// Throws c10::Error naming `field` if the expression cannot be parsed.
  ModulePattern(const std::string& expression, std::string field);

  /// Whether the whole of `path` matches: re.fullmatch.
  bool matches(const std::string& path) const { return find(path, nullptr).has_value(); }
  /// The text of the group `name` in such a match.
  std::optional<std::string> group(const std::string& path, const char* name) const {
    return find(path, name);
  }

 private:
  std::optional<std::string> find(const std::string& path, const char* group) const;

  std::shared_ptr<const void> code_;
  std::string field_;
};

}  // namespace reprise
