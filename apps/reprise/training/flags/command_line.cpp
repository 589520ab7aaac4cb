#include "reprise/training/flags/command_line.h"

#include "reprise/training/flags/suggest.h"
#include "reprise/training/flags/unknown_flag.h"

#include <reprise/reward/url.h>

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <map>
#include <sstream>

namespace reprise::app {

namespace {

using Words = std::vector<std::string>;

/// Collects values by flag, word by word in the order of the command line: of a flag that takes one
/// value, the last is used.
class Collector {
 public:
  explicit Collector(const FlagTable& table) : table_(table) {}

  /// `word` is empty behind a switch.
  void add(const FlagSpec& flag, const std::string& word, const std::string& written) {
    Taken& taken = taken_[flag.name];
    taken.written = written;
    if (flag.most_words > 1) {
      taken.words.push_back(word);
      return;
    }
    ++taken.times;
    taken.differs = taken.differs || (!taken.words.empty() && taken.words.front() != word);
    taken.words = {word};
  }

  /// key=value, as some programs write flags.
  void add_assignment(const std::string& word) {
    const size_t equals = word.find('=');
    add(*table_.find(word.substr(0, equals)), word.substr(equals + 1), word.substr(0, equals + 1));
  }

  void add_option(const FlagSpec& flag, const std::string& word, const std::string& written) {
    // An option with any number of values has also collected the key=value words behind it.
    const bool takes_any = flag.is_switch() || flag.most_words > 1;
    const bool is_other = takes_any && is_assignment(table_, word);
    if (is_other) {
      add_assignment(word);
    }
    if (flag.is_switch()) {
      add(flag, word.empty() || is_other ? "true" : word, written);
    } else if (!is_other) {
      add(flag, word, written);
    } else {
      taken_[flag.name].written = written;  // if it stays without words, it needs one
    }
  }

  CommandLine take() const {
    CommandLine line;
    for (const auto& [name, taken] : taken_) {
      TORCH_CHECK(!taken.words.empty(), taken.written, " needs a value");
      const FlagSpec& flag = *table_.find(name);
      line.given[name] = {value(flag, taken.words), taken.written};
      if (taken.differs) {
        line.notes.push_back("--" + name + " was given " + std::to_string(taken.times) +
                             " times: the last is used, " + without_passwords(taken.words.front()));
      }
    }
    return line;
  }

 private:
  struct Taken {
    Words words;
    std::string written;  // the name that it was given by
    int times = 0;
    bool differs = false;
  };

  static Json value(const FlagSpec& flag, const Words& words) {
    if (flag.most_words == 1) {
      return words.front();
    }
    Words all;
    for (const std::string& word : words) {
      std::istringstream parts(word);
      std::string part;
      while (flag.splits_at_commas && std::getline(parts, part, ',')) {
        all.push_back(part);
      }
      if (!flag.splits_at_commas) {
        all.push_back(word);
      }
    }
    return all;
  }

  const FlagTable& table_;
  std::map<std::string, Taken> taken_;
};

/// An option that CLI11 knows, and what it stands for.
struct Declared {
  const FlagSpec* flag = nullptr;  // null: key=value words
  std::string written;
  bool is_negation = false;
};

std::map<const CLI::Option*, Declared> declared_options(const CLI::App& command,
                                                        const FlagTable& table) {
  std::map<const CLI::Option*, Declared> all{{command.get_option(kAssignments), {}}};
  for (const FlagSpec& flag : table.flags) {
    for (const std::string& name : flag.names()) {
      all[command.get_option("--" + name)] = {&flag, "--" + name};
    }
    if (flag.is_switch()) {
      all[command.get_option("--no_" + flag.name)] = {&flag, "--no_" + flag.name, true};
    }
  }
  return all;
}

void add_word(Collector& collector, const Declared& option, const std::string& word) {
  if (option.flag == nullptr) {
    collector.add_assignment(word);
  } else if (option.is_negation) {
    collector.add(*option.flag, "false", option.written);
  } else {
    collector.add_option(*option.flag, word, option.written);
  }
}

std::string refusal_of(const CLI::App& command,
                       const FlagTable& table,
                       const std::string& written,
                       const std::string& value) {
  const std::string name = written.substr(std::min(written.find_first_not_of('-'), written.size()));
  const std::string known = about_unknown_flag(table, name, value);
  if (!known.empty()) {
    return "--" + name + known;
  }
  const std::string suggestion = suggest_flag(command, written);
  return written + ": there is no such flag" +
         (suggestion.empty() ? ". --help lists them" : "; " + suggestion);
}

/// All of them in one message, so that a command of another program is put right in one go.
void refuse_unknown(const CLI::App& command, const FlagTable& table) {
  const auto is_flag = [](const std::string& word) {
    const bool is_dashed = word.starts_with("-") && word.find_first_of("0123456789") != 1;
    return is_dashed || word.find('=') != std::string::npos;
  };
  Words refusals;
  const Words words = command.remaining();
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!is_flag(word)) {
      refusals.push_back("\"" + word +
                         "\" belongs to no flag: expected --name value or name=value");
      continue;
    }
    const size_t equals = std::min(word.find('='), word.size());
    std::string value = word.substr(std::min(equals + 1, word.size()));
    if (equals == word.size() && i + 1 < words.size() && !is_flag(words[i + 1])) {
      value = words[++i];
    }
    refusals.push_back(refusal_of(command, table, word.substr(0, equals), value));
  }
  TORCH_CHECK(refusals.empty(), c10::Join("\n  ", refusals));
}

}  // namespace

CommandLine read_command_line(const CLI::App& command, const FlagTable& table) {
  refuse_unknown(command, table);
  Collector collector(table);
  const auto declared = declared_options(command, table);
  const auto& order = command.parse_order();  // with an entry for each word
  std::map<const CLI::Option*, size_t> seen;
  for (const CLI::Option* const option : order) {
    const auto found = declared.find(option);
    if (found == declared.end()) {
      continue;
    }
    const auto& words = option->results();
    const size_t index = seen[option]++;
    const auto times = static_cast<size_t>(std::count(order.begin(), order.end(), option));
    if (times == words.size()) {
      add_word(collector, found->second, words[index]);
    } else if (index + 1 == times) {  // CLI11 has split "[a,b]"
      const FlagSpec* flag = found->second.flag;
      TORCH_CHECK(flag == nullptr || flag->most_words > 1,
                  found->second.written,
                  ": expected one value, found a list");
      for (const std::string& word : words) {
        add_word(collector, found->second, word);
      }
    }
  }
  CommandLine line = collector.take();
  const auto& files = command.get_option("--config")->results();
  line.config = files.empty() ? "" : files.back();
  if (files.size() > 1) {
    line.notes.push_back("--config was given " + std::to_string(files.size()) +
                         " times: the last is used, " + files.back());
  }
  return line;
}

}  // namespace reprise::app
