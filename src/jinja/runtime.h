// The resources of one rendering: its budget, the clock, and the objects it created.
#pragma once

#include "jinja/values/budget.h"
#include "jinja/values/builders.h"
#include "jinja/values/value.h"

#include <reprise/jinja/chat_template.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace reprise::jinja {

class Runtime : public Budget {
 public:
  Runtime(const TemplateLimits& limits, TemplateClock clock);
  ~Runtime();

  Value text(std::string_view bytes);  ///< a copy
  Value text(TextBuilder text);
  Value markup(TextBuilder text);
  Value list(ItemBuilder items);
  Value tuple(ItemBuilder items);
  Value pair(Value first, Value second);  ///< a tuple
  Value group(Value key, Value members);  ///< an item of groupby
  Value dict(Dict entries);
  Value undefined(std::string why) { return Value::undefined(*this, std::move(why)); }

  /// Creates an object that lives until the end of the rendering.
  template <class T, class... Args>
  std::shared_ptr<T> make(Args&&... arguments) {
    charge(sizeof(T) + 2 * kObjectOverhead);
    auto object = std::make_shared<T>(std::forward<Args>(arguments)...);
    objects_.push_back(object);
    return object;
  }

  const TemplateClock& clock() const { return clock_; }

 private:
  std::shared_ptr<Sequence> sequence(ItemBuilder items);
  void check_depth(size_t depth) const;

  TemplateClock clock_;
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
  const std::string* text_ = nullptr;  ///< of iterable_, if it is a text
  size_t position_ = 0;
};

bool is_iterable(const Value& value);
ItemBuilder to_items(Runtime& runtime, const Value& iterable);
inline Values to_values(Runtime& runtime, const Value& iterable) {
  return to_items(runtime, iterable).take();
}

}  // namespace reprise::jinja
