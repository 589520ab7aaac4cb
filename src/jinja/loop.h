// The variable `loop` inside a for.
#pragma once

#include "jinja/runtime.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::jinja {

/// Iterates with at most one item of lookahead unless the length is requested, so that the
/// condition of the loop is evaluated no earlier than in jinja2.
class Loop final : public Object {
 public:
  using Keep = std::function<bool(const Value&)>;
  Loop(Runtime& runtime, Value iterable, Keep keep, int64_t depth, Value recurse);

  bool advance(Value& item);

  std::string type_name() const override { return "LoopContext"; }
  void write_repr(Runtime& runtime, TextBuilder& out) override;
  std::optional<Value> attribute(Runtime& runtime, std::string_view name) override;
  std::optional<size_t> length(Runtime& runtime) override;
  bool is_callable() const override { return true; }
  Value call(Runtime& runtime, const Arguments& arguments) override;
  void release() override;

 private:
  const std::optional<Value>& peek();
  bool fetch(Value& item);
  Value changed(Runtime& runtime, const Arguments& arguments);
  Value cycle(const Arguments& arguments) const;

  Value iterable_;
  std::optional<Cursor> cursor_;
  Keep keep_;  ///< the `if` of the loop; empty: all items
  int64_t depth_;
  Value recurse_;  ///< renders the loop again on other items; none if not recursive
  int64_t index_ = -1;
  std::optional<size_t> length_;
  Values ahead_;  ///< items fetched for counting, from ahead_position_ on
  size_t ahead_position_ = 0;
  bool is_exhausted_ = false;
  std::optional<Value> after_, current_, before_;
  std::optional<Value> last_changed_;  ///< the arguments of loop.changed() as a tuple
};

}  // namespace reprise::jinja
