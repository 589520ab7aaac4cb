// The random numbers that a region draws.
//
// Note [Each draw is remembered]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// The recompute must draw what forward drew. Restoring the generators' states from the region's
// start is not enough: other threads may draw from the same generators, so that the state at a draw
// does not follow from an earlier one; and rewinding a generator that others share would repeat
// their numbers. So forward remembers the state that each random operator found, and in the
// recompute the operator draws from a private generator in that state. Shared generators are never
// rewound. What forward draws is the same as without a region.
#pragma once

#include "checkpoint/state/generator_state.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace reprise::detail {

/// One random operator of a forward.
struct Draw {
  const void* op;
  GeneratorState before;
  /// For an operator that takes no generator and draws from the default one by itself.
  std::optional<GeneratorState> after = {};
};

class DrawLog {
 public:
  /// Watches the default generators from here on for draws without an operator.
  DrawLog();

  /// A random operator is about to draw.
  void add(Draw draw);
  /// It will draw from another state: another thread has drawn in between.
  void correct_last(const GeneratorState& before);
  /// It has drawn, or failed.
  void drew(const at::Generator& generator, const std::optional<GeneratorMark>& mark);
  /// An operator that is not run again is about to draw, or has drawn.
  void begin_others();
  void end_others();
  /// End of forward.
  void finish();

  size_t size() const { return draws_.size(); }
  const Draw& operator[](size_t index) const { return draws_[index]; }

  /// Whether a default generator changed in forward, but not by a random operator of the region:
  /// another thread used it, or the region seeded it or drew from it directly. Also if the region
  /// may have seeded it as it was.
  bool has_unseen_draws() const { return !unseen_.empty() || may_have_seeded_; }
  /// Whether one of these changes led to this state, or a draw of forward found it.
  bool led_to(const GeneratorMark& mark) const;

 private:
  struct Watched {
    at::Generator generator;
    std::optional<GeneratorMark> expected;
  };
  void compare(Watched& watched, const std::optional<GeneratorMark>& now);

  std::vector<Draw> draws_;
  std::vector<Watched> watched_;
  std::vector<GeneratorMark> unseen_;
  bool may_have_seeded_ = false;
};

/// The draws of a recompute, in forward's order.
class DrawReplay {
 public:
  /// `listed`: generators that are restored for the recompute and continue from its draws.
  DrawReplay(const DrawLog& log, const std::vector<at::Generator>& listed)
      : log_(log), listed_(listed) {}

  /// Called when there is a draw after forward's last one.
  std::function<void()> at_end;

  /// The next draw. Null if forward had none here, or one of another operator.
  const Draw* next(const c10::OperatorHandle& op);
  /// The next draw, if it is one of this operator itself, which takes no generator; else null.
  const Draw* next_own(const c10::OperatorHandle& op);
  /// A kept result is replayed, whose operator made so many draws in forward.
  void skip(size_t draws) { next_ += draws; }
  bool lists(const at::Generator& generator) const;
  /// So many draws have been replayed, or were left out with a kept result.
  size_t drawn() const { return next_; }

  /// How the draws differ from forward's; empty if they do not.
  const std::string& difference() const { return difference_; }

 private:
  const DrawLog& log_;
  const std::vector<at::Generator>& listed_;
  size_t next_ = 0;
  std::string difference_;
};

/// Where the random operators of this thread draw from, in its scope.
class DrawGuard {
 public:
  /// Forward: as without a region. Draws are logged, also by enclosing regions. Null: only by
  /// those.
  explicit DrawGuard(DrawLog* log);
  /// Recompute: as in forward. Null: as without a region, which gives other numbers.
  explicit DrawGuard(DrawReplay* replay);
  /// From generators that the program does not see.
  enum class From : uint8_t { Aside };
  explicit DrawGuard(From from);
  ~DrawGuard();
  DrawGuard(const DrawGuard&) = delete;
  DrawGuard& operator=(const DrawGuard&) = delete;

 private:
  friend class DrawingCall;
  DrawLog* log_ = nullptr;
  DrawReplay* replay_ = nullptr;
  bool is_aside_ = false;
  int graph_task_;
  DrawGuard* outer_;
};

/// In its scope, what this thread draws is no part of a region: no recompute draws it again.
class UnloggedDraws {
 public:
  UnloggedDraws();
  ~UnloggedDraws();
  UnloggedDraws(const UnloggedDraws&) = delete;
  UnloggedDraws& operator=(const UnloggedDraws&) = delete;

 private:
  std::optional<DrawGuard> unlogged_;
};

/// In its scope, random operators of this thread draw from a copy of the CPU's default generator
/// instead, with regions and without, so that other threads find the default one as if this thread
/// drew nothing. A dispatch key must be included for operators to be seen: kWriteKey.
class PrivateDraws {
 public:
  PrivateDraws();
  ~PrivateDraws();
  PrivateDraws(const PrivateDraws&) = delete;
  PrivateDraws& operator=(const PrivateDraws&) = delete;

 private:
  friend class DrawingCall;
  at::Generator copy_;
  PrivateDraws* outer_;
  DrawGuard guard_{static_cast<DrawLog*>(nullptr)};
};

/// Runs a random operator. `generator`: the index of its argument; empty if it takes none.
void run_drawing(const c10::OperatorHandle& op,
                 c10::DispatchKeySet below,
                 torch::jit::Stack* stack,
                 std::optional<size_t> generator);

}  // namespace reprise::detail
