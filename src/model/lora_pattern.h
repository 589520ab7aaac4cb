// Regular expressions over module paths, as Python's re reads them.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace reprise {

/// Bounded: an expression that is too long or searches too long is an error, not a wait.
class ModulePattern {
 public:
  /// Throws c10::Error naming `field` if the expression cannot be read.
  ModulePattern(const std::string& expression, std::string field);

  /// Whether the whole of `path` matches: re.fullmatch.
  bool matches(const std::string& path) const { return find(path, nullptr).has_value(); }
  /// What the group `name` holds in such a match.
  std::optional<std::string> group(const std::string& path, const char* name) const {
    return find(path, name);
  }

 private:
  std::optional<std::string> find(const std::string& path, const char* group) const;

  std::shared_ptr<const void> code_;
  std::string field_;
};

}  // namespace reprise
