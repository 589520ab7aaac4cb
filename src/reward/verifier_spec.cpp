// The grammar of a spec; verifiers define what the keys mean.
#include "reward/verifier_spec.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace reprise::reward {
namespace {

// Takes the rest of the text, since a pattern may contain any character.
constexpr std::string_view kLastKey = "pattern";

}  // namespace

VerifierSpec::VerifierSpec(std::string_view text) : spec_(text) {
  const size_t colon = text.find(':');
  kind_ = text.substr(0, colon);
  std::string_view rest = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  while (!rest.empty()) {
    const size_t equals = rest.find('=');
    const std::string key(rest.substr(0, equals));
    TORCH_CHECK(equals != std::string_view::npos && key.find(',') == std::string::npos,
                "[reward] verifier \"",
                spec_,
                "\": expected key=value, found \"",
                rest.substr(0, rest.find(',')),
                "\"");
    rest.remove_prefix(equals + 1);
    const size_t end = key == kLastKey ? std::string_view::npos : rest.find(',');
    TORCH_CHECK(values_.emplace(key, rest.substr(0, end)).second,
                "[reward] verifier \"",
                spec_,
                "\": ",
                key,
                " is given twice");
    rest = end == std::string_view::npos ? "" : rest.substr(end + 1);
  }
}

void VerifierSpec::allow_only(const std::vector<std::string>& keys) const {
  for (const auto& [key, value] : values_) {
    TORCH_CHECK(std::find(keys.begin(), keys.end(), key) != keys.end(),
                "[reward] verifier \"",
                spec_,
                "\": ",
                kind_,
                " takes ",
                c10::Join(", ", keys),
                "; found \"",
                key,
                "\"");
  }
}

std::string VerifierSpec::text(const std::string& key, const std::string& otherwise) const {
  const auto found = values_.find(key);
  if (found == values_.end()) {
    return otherwise;
  }
  TORCH_CHECK(!found->second.empty(), "[reward] verifier \"", spec_, "\": ", key, " is empty");
  return found->second;
}

std::string VerifierSpec::required(const std::string& key) const {
  const std::string value = text(key, "");
  TORCH_CHECK(!value.empty(), "[reward] verifier \"", spec_, "\": ", kind_, " needs ", key, "=");
  return value;
}

double VerifierSpec::number(const std::string& key, double otherwise) const {
  const std::string value = text(key, "");
  if (value.empty()) {
    return otherwise;
  }
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  TORCH_CHECK(*end == '\0' && std::isfinite(number) && number > 0,
              "[reward] verifier \"",
              spec_,
              "\": ",
              key,
              " must be a number above 0, found \"",
              value,
              "\"");
  return number;
}

bool VerifierSpec::yes_or_no(const std::string& key, bool otherwise) const {
  const std::string value = text(key, otherwise ? "yes" : "no");
  TORCH_CHECK(value == "yes" || value == "no",
              "[reward] verifier \"",
              spec_,
              "\": ",
              key,
              " must be yes or no, found \"",
              value,
              "\"");
  return value == "yes";
}

}  // namespace reprise::reward
