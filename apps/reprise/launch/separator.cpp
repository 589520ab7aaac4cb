#include "reprise/launch/separator.h"

#include <cstddef>

namespace reprise::app {

std::vector<std::string> with_separator(std::vector<std::string> words) {
  if (words.empty() || words.front() != "launch") {
    return words;
  }
  for (size_t i = 1; i < words.size() && words[i] != "--"; ++i) {
    if (!words[i].starts_with("-")) {
      words.insert(words.begin() + static_cast<std::ptrdiff_t>(i), "--");
      break;
    }
    const bool takes_next =
        words[i].find('=') == std::string::npos && words[i] != "--help" && words[i] != "-h";
    i += takes_next ? 1 : 0;  // every flag of launch has one value
  }
  return words;
}

}  // namespace reprise::app
