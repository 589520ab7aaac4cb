// Parsing of single lines first, then of all lines of a batch.
#include "reward/reply_lines.h"

#include "reward/request_json.h"

#include <reprise/io/json.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace reprise::reward {
namespace {

constexpr JsonLimits kReplyLimits = {.max_bytes =
                                         2 * kLongestReplyLine};  // null is longer than NaN

/// The end of the NaN or infinity, as Python prints them, that is at `at`; `at` if there is none.
size_t end_of_non_finite(std::string_view line, size_t at) {
  constexpr std::array<std::string_view, 6> kWords = {
      "NaN", "nan", "Infinity", "infinity", "inf", "Inf"};
  for (const std::string_view word : kWords) {
    const size_t end = at + word.size();
    if (line.substr(at).starts_with(word) &&
        (end == line.size() || std::string_view(" ,}").find(line[end]) != std::string_view::npos)) {
      return end;
    }
  }
  return at;
}

/// Replaces every NaN and infinity that is the whole line or follows a colon by null, in one pass
/// over the line. std::nullopt if there is none. Strings stay as they are.
std::optional<std::string> with_null_for_non_finite(std::string_view line) {
  std::string result;
  bool has_one = false;
  bool in_string = false;
  bool takes_value = true;  // at the start of the line, or after a colon
  for (size_t at = 0; at < line.size();) {
    if (std::exchange(takes_value, false)) {
      const size_t value = std::min(line.find_first_not_of(" +-", at), line.size());
      const size_t end = end_of_non_finite(line, value);
      result += end > value ? "null" : line.substr(at, value - at);
      has_one = has_one || end > value;
      at = end;
      continue;
    }
    const char c = line[at];
    const size_t length = in_string && c == '\\' && at + 1 < line.size() ? 2 : 1;
    result += line.substr(at, length);
    at += length;
    in_string = in_string != (c == '"');
    takes_value = !in_string && c == ':';
  }
  return has_one ? std::optional(std::move(result)) : std::nullopt;
}

double reward_of(const Json& value) {
  TORCH_CHECK(value.is_number() || value.is_null(), "the reward is ", kind_of(value));
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

ReplyLine reply_of(const Json& json) {
  if (!json.is_object()) {
    return {std::nullopt, reward_of(json)};
  }
  TORCH_CHECK(json.contains("reward"), "it has no \"reward\"");
  ReplyLine reply{std::nullopt, reward_of(json["reward"])};
  if (json.contains("id")) {
    TORCH_CHECK(json["id"].is_number_integer(), "its \"id\" is ", kind_of(json["id"]));
    reply.id = json["id"].get<int64_t>();
  }
  return reply;
}

}  // namespace

ReplyLine parse_reply_line(const std::string& line) {
  try {
    return reply_of(parse_json(line, "line", kReplyLimits));
  } catch (const c10::Error& error) {
    const std::string reason = error.what_without_backtrace();
    if (const auto replaced = with_null_for_non_finite(line)) {
      try {
        ReplyLine reply = reply_of(parse_json(*replaced, "line", kReplyLimits));
        reply.is_finite = false;
        return reply;
      } catch (const c10::Error&) {  // the line is refused below, for its first error
      }
    }
    TORCH_CHECK(false,
                "expected a number, null or {\"id\": ..., \"reward\": ...} on a line, it printed ",
                quoted_start(line),
                " (",
                reason,
                ")");
  }
}

void ReplyLines::add(std::string_view printed) {
  while (!printed.empty()) {
    const size_t end = printed.find('\n');
    partial_ += printed.substr(0, end);
    TORCH_CHECK(partial_.size() <= kLongestReplyLine,
                "it printed a line of more than ",
                kLongestReplyLine,
                " bytes that begins with ",
                quoted_start(partial_));
    if (end == std::string_view::npos) {
      return;
    }
    if (partial_.ends_with('\r')) {
      partial_.pop_back();
    }
    // rewards() reports one line too many; a process that never stops must not fill the memory.
    TORCH_CHECK(lines_.size() <= requests_,
                "it printed far more than the ",
                requests_,
                " lines that were asked for, such as ",
                quoted_start(partial_));
    lines_.push_back(std::exchange(partial_, {}));
    printed.remove_prefix(end + 1);
  }
}

const std::string& ReplyLines::last() const {
  return partial_.empty() && !lines_.empty() ? lines_.back() : partial_;
}

size_t ReplyLines::request_of(const ReplyLine& reply, size_t line) const {
  if (!reply.id) {
    return line;
  }
  const int64_t last_id = first_id_ + static_cast<int64_t>(requests_) - 1;
  TORCH_CHECK(*reply.id >= first_id_ && *reply.id <= last_id,
              "it answered the id ",
              *reply.id,
              ", which is not asked for: expected ",
              first_id_,
              " to ",
              last_id);
  return static_cast<size_t>(*reply.id - first_id_);
}

ReplyLines::Rewards ReplyLines::rewards() const {
  TORCH_CHECK(lines_.size() <= requests_ && partial_.empty(),
              "it printed more than the ",
              requests_,
              " lines it was asked for; the last is ",
              quoted_start(last()));
  Rewards rewards{std::vector<double>(requests_), {}};
  std::vector<bool> has_reply(requests_, false);
  bool has_ids = false;
  for (size_t i = 0; i < lines_.size(); ++i) {
    const ReplyLine reply = parse_reply_line(lines_[i]);
    has_ids = i == 0 ? reply.id.has_value() : has_ids;
    TORCH_CHECK(reply.id.has_value() == has_ids,
                "either all or none of its lines must have an id; it printed ",
                quoted_start(lines_[i]));
    const size_t request = request_of(reply, i);
    TORCH_CHECK(!has_reply[request], "it answered the id ", *reply.id, " twice");
    has_reply[request] = true;
    rewards.values[request] = reply.reward;
    if (!reply.is_finite) {
      rewards.non_finite.push_back(request);
    }
  }
  return rewards;
}

}  // namespace reprise::reward
