// What one rendering may use, and what it has used so far.
//
// Note [Budget]
// Templates are untrusted code. A value can be read and made only through a Budget: Value::as_text,
// Value::items, Dict::find and the other accessors take one and charge all that they give access
// to, and TextBuilder, ItemBuilder, Dict and Runtime charge memory before they take it. So no
// operation can touch or make what was not paid for, and one that visits shared parts again and
// again (a tuple doubled 60 times) pays for each visit and is stopped on the way. What an operation
// does with a text that it was given must take one pass over it, or charge more.
#pragma once

#include <reprise/jinja/chat_template.h>

#include <cstddef>
#include <string_view>

namespace reprise::jinja {

class Budget {
 public:
  explicit Budget(const TemplateLimits& limits) : limits_(limits) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  /// Counts evaluated nodes and visited items.
  void step(size_t count = 1) {
    used_.steps += count;
    if (used_.steps > limits_.max_steps) {
      fail_steps();
    }
  }
  /// Reading this many bytes of text counts as one step.
  static constexpr size_t kBytesPerStep = 32;
  void read(size_t bytes) { step(bytes / kBytesPerStep); }

  /// Call it before `bytes` are allocated.
  void charge(size_t bytes);
  /// Charges `count` * `size` bytes, without overflow.
  void charge(size_t count, size_t size);
  /// What an object on the heap takes besides its contents.
  static constexpr size_t kObjectOverhead = 64;

  const TemplateLimits& limits() const { return limits_; }
  const TemplateUse& used() const { return used_; }

  /// One level of nested evaluation, or of walking into a value.
  class Nesting {
   public:
    explicit Nesting(Budget& budget);
    ~Nesting() { --budget_.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    Budget& budget_;
  };

 private:
  [[noreturn]] void fail_steps() const;

  TemplateLimits limits_;
  TemplateUse used_;
  size_t depth_ = 0;
};

/// Whether two texts are equal. Charges what has to be compared.
bool is_same_text(Budget& budget, std::string_view a, std::string_view b);

}  // namespace reprise::jinja
