// The output of a reward command: one line per request, assembled from the pieces that arrive, and
// checked.
#pragma once

#include <reprise/export.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::reward {

constexpr size_t kLongestReplyLine = 65536;  ///< in bytes

/// One parsed line: a number, null, or {"id": ..., "reward": ...}.
struct ReplyLine {
  std::optional<int64_t> id;  ///< unset: the line has none
  double reward = 0;          ///< NaN: null, the command cannot score this completion
  bool is_finite = true;      ///< false: the line said NaN or infinity, which is an error
};

/// Throws, quoting the line, if it is none of these. Takes time and memory in proportion to the
/// line, and a stack that does not depend on it.
REPRISE_API ReplyLine parse_reply_line(const std::string& line);

class ReplyLines {
 public:
  /// The requests have consecutive ids from `first_id` on.
  ReplyLines(size_t requests, int64_t first_id) : requests_(requests), first_id_(first_id) {}

  /// Adds a piece of output. Throws if a line is too long, or if there are far too many lines.
  void add(std::string_view printed);
  bool is_complete() const { return lines_.size() >= requests_; }
  size_t size() const { return lines_.size(); }
  size_t requested() const { return requests_; }
  const std::string& last() const;  ///< the latest line, complete or not, for messages

  struct Rewards {
    std::vector<double> values;
    std::vector<size_t> non_finite;  ///< requests whose reward was NaN or infinite
  };
  /// Rewards in the order of the requests, assigned by id, or by position if lines have no ids.
  /// Throws for too many lines, unknown or repeated ids, and if only some lines have an id.
  Rewards rewards() const;

 private:
  size_t request_of(const ReplyLine& reply, size_t line) const;

  size_t requests_;
  int64_t first_id_;
  std::vector<std::string> lines_;
  std::string partial_;  // the beginning of a line
};

}  // namespace reprise::reward
