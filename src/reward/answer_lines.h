// What a reward command prints: one line per request, put together from pieces and checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::detail {

/// One line, read: a number, null, or {"id": ..., "reward": ...}.
struct AnswerLine {
  std::optional<int64_t> id;  ///< if it has one
  double reward = 0;          ///< NaN: null, it cannot score this one
  bool is_finite = true;      ///< false: it said NaN or infinity, which is no reward
};

/// Throws, showing the line, if it is nothing of the kind.
AnswerLine read_answer_line(const std::string& line);

class AnswerLines {
 public:
  /// For requests with the ids from `first_id` on.
  AnswerLines(size_t requests, int64_t first_id) : requests_(requests), first_id_(first_id) {}

  /// Throws for a line, or lines, that never end.
  void add(std::string_view printed);
  bool is_complete() const { return lines_.size() >= requests_; }
  size_t size() const { return lines_.size(); }
  size_t requested() const { return requests_; }
  const std::string& last() const;  ///< the latest line, whole or not, for messages

  struct Rewards {
    std::vector<double> values;
    std::vector<size_t> not_finite;  ///< requests whose reward was NaN or infinite
  };
  /// By id, or in order where there are none. Throws for too many lines, ids that were not asked
  /// for or come twice, and lines of both kinds.
  Rewards rewards() const;

 private:
  size_t request_of(const AnswerLine& answer, size_t line) const;

  size_t requests_;
  int64_t first_id_;
  std::vector<std::string> lines_;
  std::string begun_;  // a line without its end
};

}  // namespace reprise::detail
