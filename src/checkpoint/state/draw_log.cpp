#include "checkpoint/state/draw_log.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <utility>

namespace reprise::detail {

DrawLog::DrawLog() {
  static const auto defaults = default_generators();
  watched_.reserve(defaults.size());
  for (const auto& generator : defaults) {
    watched_.push_back({generator, GeneratorMark::of(generator)});
  }
}

void DrawLog::compare(Watched& watched, const std::optional<GeneratorMark>& now) {
  if (watched.expected && now && *watched.expected != *now) {
    unseen_.push_back(*now);
  }
}

void DrawLog::add(Draw draw) {
  for (auto& watched : watched_) {
    if (watched.generator == draw.before.generator()) {
      const auto mark = draw.before.mark();
      compare(watched, mark);
      may_have_seeded_ = may_have_seeded_ || mark.is_fresh(watched.generator.device());
    }
  }
  draws_.push_back(std::move(draw));
}

void DrawLog::correct_last(const GeneratorState& before) {
  if (!draws_.empty() && draws_.back().before.generator() == before.generator()) {
    draws_.back().before = before;
  }
}

void DrawLog::drew(const at::Generator& generator, const std::optional<GeneratorMark>& mark) {
  for (auto& watched : watched_) {
    if (watched.generator == generator) {
      watched.expected = mark;
    }
  }
}

void DrawLog::begin_others() {
  for (auto& watched : watched_) {
    compare(watched, GeneratorMark::of(watched.generator));
  }
}

void DrawLog::end_others() {
  for (auto& watched : watched_) {
    watched.expected = GeneratorMark::of(watched.generator);
  }
}

void DrawLog::finish() {
  for (auto& watched : watched_) {
    const auto now = GeneratorMark::of(watched.generator);
    compare(watched, now);
    may_have_seeded_ = may_have_seeded_ || (now && now->is_fresh(watched.generator.device()));
  }
  watched_ = {};
}

bool DrawLog::led_to(const GeneratorMark& mark) const {
  return std::find(unseen_.begin(), unseen_.end(), mark) != unseen_.end() ||
         std::any_of(draws_.begin(), draws_.end(), [&mark](const Draw& draw) {
           return draw.before.mark() == mark;
         });
}

const Draw* DrawReplay::next(const c10::OperatorHandle& op) {
  const Draw* draw = next_ < log_.size() ? &log_[next_] : nullptr;
  if (draw == nullptr && at_end) {
    at_end();
  }
  ++next_;
  if (draw != nullptr && draw->op == &op.schema()) [[likely]] {
    return draw;
  }
  if (difference_.empty()) {
    difference_ = c10::str(
        "random operator #",
        next_ - 1,
        " is ",
        op.schema().name(),
        draw == nullptr ? ", which did not run in forward" : ", which was another one in forward");
  }
  return nullptr;
}

const Draw* DrawReplay::next_own(const c10::OperatorHandle& op) {
  const bool is_own =
      next_ < log_.size() && log_[next_].op == &op.schema() && log_[next_].after.has_value();
  return is_own ? &log_[next_++] : nullptr;
}

bool DrawReplay::lists(const at::Generator& generator) const {
  return std::find(listed_.begin(), listed_.end(), generator) != listed_.end();
}

}  // namespace reprise::detail
