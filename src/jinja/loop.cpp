// The variable `loop`.
#include "jinja/loop.h"

#include "jinja/arguments.h"
#include "jinja/values/objects.h"
#include "jinja/values/operators.h"

namespace reprise::jinja {

Loop::Loop(Runtime& runtime, Value iterable, Keep keep, int64_t depth, Value recurse)
    : iterable_(std::move(iterable)),
      cursor_(std::in_place, runtime, iterable_),
      keep_(std::move(keep)),
      depth_(depth),
      recurse_(std::move(recurse)) {}

void Loop::release() {
  iterable_ = Value();
  cursor_.reset();
  keep_ = nullptr;
  recurse_ = Value();
  ahead_.clear();
  after_.reset();
  current_.reset();
  before_.reset();
  last_changed_.reset();
}

bool Loop::fetch(Value& item) {
  if (ahead_position_ < ahead_.size()) {
    item = ahead_[ahead_position_++];
    return true;
  }
  while (!is_exhausted_ && cursor_->next(item)) {
    if (!keep_ || keep_(item)) {
      return true;
    }
  }
  is_exhausted_ = true;
  return false;
}

const std::optional<Value>& Loop::peek() {
  if (!after_) {
    Value item;
    if (fetch(item)) {
      after_ = std::move(item);
    }
  }
  return after_;
}

bool Loop::advance(Value& item) {
  if (after_) {
    item = *std::exchange(after_, std::nullopt);
  } else if (!fetch(item)) {
    return false;
  }
  ++index_;
  before_ = std::exchange(current_, item);
  return true;
}

std::optional<size_t> Loop::length(Runtime& runtime) {
  if (!length_) {
    const bool is_counted =
        !keep_ && (!iterable_.is_object() || iterable_.as_object().length(runtime).has_value());
    if (is_counted) {
      length_ = length_of(runtime, iterable_);
    } else {
      ItemBuilder rest(runtime);
      for (Value item; fetch(item);) {
        rest.add(item);
      }
      length_ = rest.size() + static_cast<size_t>(index_ + 1) + (after_ ? 1 : 0);
      ahead_ = rest.take();
      ahead_position_ = 0;
    }
  }
  return length_;
}

Value Loop::cycle(const Arguments& arguments) const {
  if (!arguments.keyword.empty() || arguments.positional.empty()) {
    throw Failure("no items for cycling given");
  }
  return arguments.positional[static_cast<size_t>(index_) % arguments.positional.size()];
}

Value Loop::changed(Runtime& runtime, const Arguments& arguments) {
  if (!arguments.keyword.empty()) {
    throw Failure("loop.changed() got an unexpected keyword argument");
  }
  ItemBuilder items(runtime);
  items.add(arguments.positional);
  Value now = runtime.tuple(std::move(items));
  if (last_changed_ && is_equal(runtime, *last_changed_, now)) {
    return Value(false);
  }
  last_changed_ = std::move(now);
  return Value(true);
}

std::optional<Value> Loop::attribute(Runtime& runtime, std::string_view name) {
  const auto total = [&] { return static_cast<int64_t>(*length(runtime)); };
  if (name == "index") {
    return Value(index_ + 1);
  }
  if (name == "index0") {
    return Value(index_);
  }
  if (name == "first") {
    return Value(index_ == 0);
  }
  if (name == "last") {
    return Value(!peek().has_value());
  }
  if (name == "length") {
    return Value(total());
  }
  if (name == "revindex") {
    return Value(total() - index_);
  }
  if (name == "revindex0") {
    return Value(total() - index_ - 1);
  }
  if (name == "depth") {
    return Value(depth_ + 1);
  }
  if (name == "depth0") {
    return Value(depth_);
  }
  if (name == "previtem") {
    return index_ > 0 ? before_ : runtime.undefined("there is no previous item");
  }
  if (name == "nextitem") {
    const auto& next = peek();
    return next ? *next : runtime.undefined("there is no next item");
  }
  // The functions may refer to the loop: both live until the end of the rendering.
  if (name == "cycle") {
    return make_function(runtime, "cycle", [this](Runtime&, const Arguments& arguments) {
      return cycle(arguments);
    });
  }
  if (name == "changed") {
    return make_function(runtime, "changed", [this](Runtime& inner, const Arguments& arguments) {
      return changed(inner, arguments);
    });
  }
  return std::nullopt;
}

void Loop::write_repr(Runtime& runtime, TextBuilder& out) {
  out.add("<LoopContext " + std::to_string(index_ + 1) + "/" + std::to_string(*length(runtime)) +
          ">");
}

Value Loop::call(Runtime& runtime, const Arguments& arguments) {
  if (!recurse_.is_object()) {
    throw Failure("The loop must have the 'recursive' marker to be called recursively.");
  }
  return recurse_.as_object().call(runtime, arguments);
}

}  // namespace reprise::jinja
