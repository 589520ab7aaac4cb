// Reading of single lines first, then of all lines of a batch.
#include "reward/answer_lines.h"

#include "reward/request_json.h"

#include <reprise/io/json.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace reprise::detail {
namespace {

constexpr size_t kLongestLine = 65536;

/// The line with null in place of the first NaN or infinity that stands where JSON has a number, as
/// Python prints them: all of the line, or behind a colon. Nothing if there is none.
std::optional<std::string> with_null_for_not_finite(const std::string& line) {
  constexpr std::array<std::string_view, 6> kWords = {
      "NaN", "nan", "Infinity", "infinity", "inf", "Inf"};
  constexpr auto npos = std::string::npos;
  for (size_t begin = 0; begin != npos; begin = line.find(':', begin + 1)) {
    const size_t value = line.find_first_not_of(": +-", begin);
    const size_t end = std::min(line.find_first_of(" ,}", value), line.size());
    for (const std::string_view word : kWords) {
      if (value != npos && line.substr(value, end - value) == word) {
        return line.substr(0, begin) + (begin == 0 ? "null" : ":null") + line.substr(end);
      }
    }
  }
  return std::nullopt;
}

double reward_of(const Json& value) {
  TORCH_CHECK(value.is_number() || value.is_null(), "the reward is ", kind_of(value));
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

AnswerLine answer_of(const Json& json) {
  if (!json.is_object()) {
    return {std::nullopt, reward_of(json)};
  }
  TORCH_CHECK(json.contains("reward"), "it has no \"reward\"");
  AnswerLine answer{std::nullopt, reward_of(json["reward"])};
  if (json.contains("id")) {
    TORCH_CHECK(json["id"].is_number_integer(), "its \"id\" is ", kind_of(json["id"]));
    answer.id = json["id"].get<int64_t>();
  }
  return answer;
}

}  // namespace

AnswerLine read_answer_line(const std::string& line) {
  try {
    return answer_of(parse_json(line, "line"));
  } catch (const c10::Error& error) {
    if (const auto replaced = with_null_for_not_finite(line)) {
      AnswerLine answer = read_answer_line(*replaced);
      answer.is_finite = false;
      return answer;
    }
    TORCH_CHECK(false,
                "expected a number, null or {\"id\": ..., \"reward\": ...} on a line, it printed ",
                quoted_start(line),
                " (",
                error.what_without_backtrace(),
                ")");
  }
}

void AnswerLines::add(std::string_view printed) {
  while (!printed.empty()) {
    const size_t end = printed.find('\n');
    begun_ += printed.substr(0, end);
    TORCH_CHECK(begun_.size() <= kLongestLine,
                "it printed a line of more than ",
                kLongestLine,
                " bytes that begins with ",
                quoted_start(begun_));
    if (end == std::string_view::npos) {
      return;
    }
    if (begun_.ends_with('\r')) {
      begun_.pop_back();
    }
    // One too many is told by rewards(); a process that never stops must not fill the memory.
    TORCH_CHECK(lines_.size() <= requests_,
                "it printed far more than the ",
                requests_,
                " lines that were asked for, such as ",
                quoted_start(begun_));
    lines_.push_back(std::exchange(begun_, {}));
    printed.remove_prefix(end + 1);
  }
}

const std::string& AnswerLines::last() const {
  return begun_.empty() && !lines_.empty() ? lines_.back() : begun_;
}

size_t AnswerLines::request_of(const AnswerLine& answer, size_t line) const {
  if (!answer.id) {
    return line;
  }
  const int64_t last_id = first_id_ + static_cast<int64_t>(requests_) - 1;
  TORCH_CHECK(*answer.id >= first_id_ && *answer.id <= last_id,
              "it answered the id ",
              *answer.id,
              ", which is not asked for: expected ",
              first_id_,
              " to ",
              last_id);
  return static_cast<size_t>(*answer.id - first_id_);
}

AnswerLines::Rewards AnswerLines::rewards() const {
  TORCH_CHECK(lines_.size() <= requests_ && begun_.empty(),
              "it printed more than the ",
              requests_,
              " lines it was asked for; the last is ",
              quoted_start(last()));
  Rewards rewards{std::vector<double>(requests_), {}};
  std::vector<bool> is_answered(requests_, false);
  bool has_ids = false;
  for (size_t i = 0; i < lines_.size(); ++i) {
    const AnswerLine answer = read_answer_line(lines_[i]);
    has_ids = i == 0 ? answer.id.has_value() : has_ids;
    TORCH_CHECK(answer.id.has_value() == has_ids,
                "either all or none of its lines must have an id; it printed ",
                quoted_start(lines_[i]));
    const size_t request = request_of(answer, i);
    TORCH_CHECK(!is_answered[request], "it answered the id ", *answer.id, " twice");
    is_answered[request] = true;
    rewards.values[request] = answer.reward;
    if (!answer.is_finite) {
      rewards.not_finite.push_back(request);
    }
  }
  return rewards;
}

}  // namespace reprise::detail
