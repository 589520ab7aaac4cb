// Parses the text form of a verifier: kind[:key=value,key=value...]; see reward/verifiers.h.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::reward {

class VerifierSpec {
 public:
  /// Throws if the text does not have this form.
  explicit VerifierSpec(std::string_view text);

  const std::string& kind() const { return kind_; }

  /// Throws if it has any other key; the message lists these.
  void allow_only(const std::vector<std::string>& keys) const;

  std::string text(const std::string& key, const std::string& otherwise) const;
  std::string required(const std::string& key) const;  ///< throws if there is none
  double number(const std::string& key, double otherwise) const;
  bool yes_or_no(const std::string& key, bool otherwise) const;

 private:
  std::string spec_, kind_;
  std::map<std::string, std::string> values_;
};

}  // namespace reprise::reward
