// How a text and a list grow: memory is charged to a budget before it is taken. See Note [Budget].
#pragma once

#include "jinja/values/budget.h"
#include "jinja/values/value.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace reprise::jinja {

class TextBuilder {
 public:
  explicit TextBuilder(Budget& budget) : budget_(&budget) {}

  void add(std::string_view more) {
    make_room(more.size());
    text_ += more;
  }
  void add(char c) {
    make_room(1);
    text_ += c;
  }
  void add_code_point(int32_t code_point);
  /// Room for `size` bytes in all, for a text whose length is known.
  void reserve(size_t size) { make_room(size - std::min(size, text_.size())); }
  /// `part`, `count` times.
  void add_repeated(std::string_view part, size_t count);

  size_t size() const { return text_.size(); }
  std::string_view view() const { return text_; }
  std::string take() { return std::move(text_); }
  Budget& budget() const { return *budget_; }

 private:
  void make_room(size_t bytes) {
    if (bytes > text_.capacity() - text_.size()) {
      grow(bytes);
    }
  }
  void grow(size_t bytes);

  Budget* budget_;
  std::string text_;
};

/// The items of a list or a tuple in the making.
class ItemBuilder {
 public:
  explicit ItemBuilder(Budget& budget) : budget_(&budget) {}
  /// Takes items over that a builder made.
  ItemBuilder(Budget& budget, Values items) : budget_(&budget), items_(std::move(items)) {}

  void add(Value item) {
    if (items_.size() == items_.capacity()) {
      reserve(items_.size() + 1);
    }
    items_.push_back(std::move(item));
  }
  void add(const Values& more);
  /// Room for `size` items in all.
  void reserve(size_t size);

  size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  Values take() { return std::move(items_); }

 private:
  Budget* budget_;
  Values items_;
};

}  // namespace reprise::jinja
