#include "reprise/training/flags/option_names.h"

#include "reprise/training/flags/flag_table.h"

#include <algorithm>

namespace reprise::app {

namespace {

bool is_flag(const std::string& name) {
  return std::any_of(kObjectives.begin(), kObjectives.end(), [&](Objective objective) {
    return find_flag(objective, name) != nullptr;
  });
}

}  // namespace

std::string with_flag_names(const std::string& text) {
  std::string result;
  size_t begin = 0;  // of what has not been copied yet
  while (true) {
    const size_t open = text.find('`', begin);
    const size_t close = open == std::string::npos ? open : text.find('`', open + 1);
    if (close == std::string::npos) {
      return result + text.substr(begin);
    }
    const std::string name = text.substr(open + 1, close - open - 1);
    if (is_flag(name)) {
      result += text.substr(begin, open - begin) + "--" + name;
      begin = close + 1;
    } else {
      result += text.substr(begin, close - begin);  // the second one may open a name
      begin = close;
    }
  }
}

}  // namespace reprise::app
