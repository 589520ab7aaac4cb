// Choices that users spell as words: one table a choice, read in both directions.
#pragma once

#include <c10/util/Exception.h>

#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace reprise {

/// A second name for the same value is accepted; name_of gives the first.
template <class Choice>
using NamedChoice = std::pair<std::string_view, Choice>;

/// `option` is what messages call it.
template <class Choice>
Choice parse_choice(std::string_view option,
                    std::string_view name,
                    std::span<const NamedChoice<Choice>> choices) {
  std::string known;
  for (const auto& [text, value] : choices) {
    if (text == name) {
      return value;
    }
    known.append(known.empty() ? "" : ", ").append(text);
  }
  TORCH_CHECK(false, "[loss] ", option, " must be one of ", known, "; found \"", name, "\"");
}

/// The first of the value's names.
template <class Choice>
std::string_view name_of_choice(Choice wanted, std::span<const NamedChoice<Choice>> choices) {
  for (const auto& [text, value] : choices) {
    if (value == wanted) {
      return text;
    }
  }
  TORCH_INTERNAL_ASSERT(false, "a choice without a name");
}

}  // namespace reprise
