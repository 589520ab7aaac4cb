// The resources of one rendering: its remaining budget, the clock, and the objects it created.
//
// Templates are untrusted code. Everything that builds a value charges it here first: steps,
// nesting and the total bytes of intermediate values are bounded, so that a template cannot exhaust
// time, memory or stack.
#pragma once

#include "jinja/values/value.h"

#include <reprise/jinja/chat_template.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace reprise::jinja {

class Runtime {
 public:
  Runtime(const TemplateLimits& limits, TemplateClock clock);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// Counts evaluated nodes and visited items.
  void step(size_t count = 1);
  /// Scanning this many bytes of text counts as one step.
  static constexpr size_t kBytesPerStep = 64;
  /// Call it before `bytes` are allocated.
  void charge(size_t bytes);
  /// Charges `count` * `size` bytes, without overflow.
  void charge(size_t count, size_t size);

  Value text(std::string bytes);
  Value markup(std::string bytes);
  Value list(Values items);
  Value tuple(Values items);
  Value group(Value key, Value members);  ///< an item of groupby
  Value dict(Dict entries);

  /// Creates an object that lives until the end of the rendering.
  template <class T, class... Args>
  std::shared_ptr<T> make(Args&&... arguments) {
    charge(sizeof(T) + kObjectOverhead);
    auto object = std::make_shared<T>(std::forward<Args>(arguments)...);
    objects_.push_back(object);
    return object;
  }

  const TemplateLimits& limits() const { return limits_; }
  const TemplateClock& clock() const { return clock_; }

  /// One level of nested evaluation.
  class Nesting {
   public:
    explicit Nesting(Runtime& runtime);
    ~Nesting() { --runtime_.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    Runtime& runtime_;
  };

 private:
  std::shared_ptr<const Sequence> sequence(Values items);
  void check_depth(size_t depth) const;

  static constexpr size_t kObjectOverhead = 64;
  TemplateLimits limits_;
  TemplateClock clock_;
  size_t steps_ = 0;
  size_t allocated_ = 0;
  size_t depth_ = 0;
  std::vector<std::shared_ptr<Object>> objects_;
};

/// Iterates over anything that Python can iterate: characters, items, keys, iterators.
class Cursor {
 public:
  /// Throws Failure if the value is not iterable.
  Cursor(Runtime& runtime, Value iterable);
  bool next(Value& item);

 private:
  Runtime& runtime_;
  Value iterable_;
  size_t position_ = 0;
};

bool is_iterable(const Value& value);
Values to_values(Runtime& runtime, const Value& iterable);

}  // namespace reprise::jinja
