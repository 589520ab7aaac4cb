// The training commands and plan, whose flags have aliases, do this themselves: command_line.cpp.
#include "reprise/repeated_flags.h"

#include <algorithm>

namespace reprise::app {

void take_last_of_repeated_flags(CLI::App& app) {
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

std::vector<std::string> notes_on_repeated_flags(const CLI::App& command) {
  std::vector<std::string> notes;
  for (const CLI::Option* const option : command.get_options()) {
    const auto& values = option->results();
    const bool takes_one = option->get_items_expected_max() == 1 &&
                           option->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeLast;
    if (takes_one && !values.empty() &&
        std::count(values.begin(), values.end(), values.back()) !=
            static_cast<std::ptrdiff_t>(values.size())) {
      notes.push_back(option->get_name() + " was given " + std::to_string(values.size()) +
                      " times: the last is used, " + values.back());
    }
  }
  return notes;
}

}  // namespace reprise::app
