// Enums that users spell as words: one table per enum, used in both directions.
#pragma once

#include <c10/util/Exception.h>

#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace reprise {

/// A value may have several names; enum_name() returns the first.
template <class Enum>
using EnumName = std::pair<std::string_view, Enum>;

/// Throws for an unknown name and lists the known ones. `option` names the option in the message.
template <class Enum>
Enum parse_enum(std::string_view option,
                std::string_view name,
                std::span<const EnumName<Enum>> names) {
  std::string known;
  for (const auto& [text, value] : names) {
    if (text == name) {
      return value;
    }
    known.append(known.empty() ? "" : ", ").append(text);
  }
  TORCH_CHECK(false, "[loss] ", option, " must be one of ", known, "; found \"", name, "\"");
}

template <class Enum>
std::string_view enum_name(Enum wanted, std::span<const EnumName<Enum>> names) {
  for (const auto& [text, value] : names) {
    if (value == wanted) {
      return text;
    }
  }
  TORCH_INTERNAL_ASSERT(false, "an enumerator without a name");
}

}  // namespace reprise
