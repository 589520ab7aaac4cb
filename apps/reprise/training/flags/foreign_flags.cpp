#include "reprise/training/flags/foreign_flags.h"

#include "reprise/training/flags/flag_spec.h"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <string_view>
#include <utility>

namespace reprise::app {

extern const char* const kMigratingDocument;  // docs/migrating.md; the build makes its file

namespace {

using Cells = std::vector<std::string>;

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? ""
                                    : text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

// "| a | b |" to {"a", "b"}; "\|" is a bar in a cell.
Cells cells_of(const std::string& line) {
  Cells cells(1);
  for (size_t i = 1; i < line.size(); ++i) {
    if (line[i] == '|') {
      cells.emplace_back();
    } else {
      i += line[i] == '\\' && i + 1 < line.size() && line[i + 1] == '|' ? 1 : 0;
      cells.back() += line[i];
    }
  }
  std::transform(cells.begin(), cells.end(), cells.begin(), trimmed);
  return cells;
}

// Without backticks, stars and the targets of links.
std::string plain_text(const std::string& markdown) {
  std::string text;
  for (size_t i = 0; i < markdown.size(); ++i) {
    if (markdown.compare(i, 2, "](") == 0) {
      i = std::min(markdown.find(')', i), markdown.size());
    } else if (markdown.compare(i, 2, "**") == 0) {
      ++i;
    } else if (markdown[i] != '`' && markdown[i] != '[') {
      text += markdown[i];
    }
  }
  return text;
}

Cells spans_of(const std::string& cell) {
  Cells spans;
  size_t open = cell.find('`');
  while (open != std::string::npos) {
    const size_t close = cell.find('`', open + 1);
    if (close == std::string::npos) {
      break;
    }
    spans.push_back(cell.substr(open + 1, close - open - 1));
    open = cell.find('`', close + 1);
  }
  return spans;
}

// The DPO authors write flags without dashes.
bool is_flag_text(const std::string& span, const std::string& program) {
  const bool is_key = program == "DPO code" && span.find_first_of("/ ") == std::string::npos;
  return span.starts_with("--") || is_key;
}

std::string normal_name(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

bool names(const ForeignFlag& row, const std::string& name) {
  const size_t star = row.name.find('*');
  return star == std::string::npos ? normal_name(row.name) == name
                                   : name.starts_with(row.name.substr(0, star));
}

bool is_placeholder(const std::string& value) {
  return !value.empty() && std::all_of(value.begin(), value.end(), [](unsigned char c) {
    return std::isupper(c) != 0 || c == '_';
  });
}

/// The smallest is the row to take.
int distance_of(const ForeignFlag& row, const std::string& value, bool is_online) {
  constexpr int kOtherTable = 10, kOnlyAPrefix = 4, kOtherValue = 3, kAllValues = 2, kAnyValue = 1;
  int distance = row.is_online == is_online ? 0 : kOtherTable;
  distance += row.name.find('*') == std::string::npos ? 0 : kOnlyAPrefix;
  distance += row.value == value && !value.empty()             ? 0
              : is_placeholder(row.value) && !value.empty()    ? kAnyValue
              : row.value.empty() || is_placeholder(row.value) ? kAllValues
                                                               : kOtherValue;
  return distance;
}

}  // namespace

std::vector<ForeignFlag> read_foreign_flags(const std::string& document) {
  std::vector<ForeignFlag> flags;
  std::istringstream lines(document);
  Cells previous;
  std::string program;
  bool is_online = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("## ")) {
      is_online = line == "## Online training";
    }
    if (!line.starts_with("|")) {
      previous.clear();
      program.clear();
      continue;
    }
    const Cells cells = cells_of(line);
    if (line.starts_with("|---")) {
      program = previous.empty() ? "" : previous[0];
    } else if (!program.empty() && cells.size() >= 3) {
      for (const std::string& span : spans_of(cells[0])) {
        if (is_flag_text(span, program)) {
          const std::string text = span.starts_with("--") ? span.substr(2) : span;
          const size_t end = std::min(text.find_first_of(" ="), text.size());
          flags.push_back({text.substr(0, end),
                           end < text.size() ? text.substr(end + 1) : "",
                           program,
                           is_online,
                           cells[1],
                           cells[2]});
        }
      }
    }
    previous = cells;
  }
  return flags;
}

const std::vector<ForeignFlag>& foreign_flags() {
  static const auto all = read_foreign_flags(kMigratingDocument);
  return all;
}

const ForeignFlag* find_foreign_flag(const std::string& name,
                                     const std::string& value,
                                     Objective objective) {
  const bool wants_online = is_online(objective);
  const std::string wanted = normal_name(name);
  const ForeignFlag* best = nullptr;
  for (const ForeignFlag& row : foreign_flags()) {
    const bool is_nearer = best == nullptr || distance_of(row, value, wants_online) <
                                                  distance_of(*best, value, wants_online);
    if (!row.here.starts_with("same") && names(row, wanted) && is_nearer) {
      best = &row;
    }
  }
  return best;
}

std::string answer_of(const ForeignFlag& row, const std::string& value) {
  std::string here = plain_text(row.here);
  if (is_placeholder(row.value) && !value.empty()) {
    const size_t at = here.find(" " + row.value);
    if (at != std::string::npos) {
      here.replace(at + 1, row.value.size(), value);
    }
  }
  const std::string note = plain_text(row.note);
  const bool is_about_value = !row.value.empty() && !is_placeholder(row.value);
  const std::string what = " (" + row.program + ")" + (is_about_value ? " " + row.value : "");
  if (here == "refused" || here.empty()) {
    return what + (here.empty() ? ": " : " is not available: ") + note;
  }
  return what + ": here " + here + (note.empty() ? "" : "; " + note);
}

}  // namespace reprise::app
