// Objects: namespaces, functions, iterators, dict views.
#pragma once

#include "jinja/runtime.h"
#include "jinja/values/value.h"

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::jinja {

/// namespace(): the only value that a template can modify from inside a loop.
class Namespace final : public Object {
 public:
  std::string type_name() const override { return "Namespace"; }
  void write_repr(Runtime& runtime, TextBuilder& out) override;
  std::optional<Value> attribute(Runtime& runtime, std::string_view name) override;
  void set(Runtime& runtime, std::string_view name, Value value);
  void release() override { attributes_.clear(); }

 private:
  Value* find(Runtime& runtime, std::string_view name);

  std::vector<std::pair<std::string, Value>> attributes_;
};

/// A function or a bound method.
class Function final : public Object {
 public:
  using Body = std::function<Value(Runtime&, const Arguments&)>;
  Function(std::string name, Body body) : name_(std::move(name)), body_(std::move(body)) {}
  std::string type_name() const override { return "builtin_function_or_method"; }
  void write_repr(Runtime&, TextBuilder& out) override {
    out.add("<built-in method " + name_ + ">");
  }
  bool is_callable() const override { return true; }
  Value call(Runtime& runtime, const Arguments& arguments) override {
    return body_(runtime, arguments);
  }
  void release() override { body_ = nullptr; }

 private:
  std::string name_;
  Body body_;
};

/// A Python generator or iterator: yields each item once.
class Iterator final : public Object {
 public:
  using Next = std::function<bool(Runtime&, Value&)>;
  Iterator(std::string type, Next next) : type_(std::move(type)), next_(std::move(next)) {}
  std::string type_name() const override { return type_; }
  bool next(Runtime& runtime, Value& item);
  void release() override { next_ = nullptr; }

 private:
  std::string type_;
  Next next_;
  bool running_ = false;
};

/// d.keys(), d.values(), d.items(): have a length and can be iterated, but not indexed.
class DictView final : public Object {
 public:
  DictView(std::string type, Value items) : type_(std::move(type)), items_(std::move(items)) {}
  std::string type_name() const override { return type_; }
  void write_repr(Runtime& runtime, TextBuilder& out) override;
  std::optional<size_t> length(Runtime&) override { return items_.item_count(); }
  const Value& items() const { return items_; }  ///< a list
  void release() override { items_ = Value(); }

 private:
  std::string type_;
  Value items_;
};

/// cycler(...)
class Cycler final : public Object {
 public:
  explicit Cycler(Values items) : items_(std::move(items)) {}
  std::string type_name() const override { return "Cycler"; }
  std::optional<Value> attribute(Runtime& runtime, std::string_view name) override;
  void release() override { items_.clear(); }

 private:
  Values items_;
  size_t position_ = 0;
};

/// joiner(separator)
class Joiner final : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  std::string type_name() const override { return "Joiner"; }
  bool is_callable() const override { return true; }
  Value call(Runtime& runtime, const Arguments& arguments) override;
  void release() override { separator_ = Value(); }

 private:
  Value separator_;
  bool used_ = false;
};

Value make_function(Runtime& runtime, std::string_view name, Function::Body body);
Value make_iterator(Runtime& runtime, std::string type, Iterator::Next next);
/// A generator over existing items.
Value make_iterator_over(Runtime& runtime, std::string type, ItemBuilder items);

}  // namespace reprise::jinja
