// The values of a template: Python values, as far as chat templates use them. What they hold is
// read through a Budget: see Note [Budget].
//
// Containers are immutable once built (the sandbox refuses append and similar methods), so a
// container knows its nesting depth and cannot contain itself. Mutable values (namespaces, loops,
// iterators) are Objects, which a Runtime owns until the end of a rendering. Strings are always
// valid UTF-8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace reprise::jinja {

class Budget;
class Dict;
class Object;
class Runtime;
class TextBuilder;
class Value;
using Values = std::vector<Value>;

/// An error in a template. ChatTemplate converts it to a c10::Error with source and line.
struct Failure : std::runtime_error {
  explicit Failure(std::string_view message, int at_line = 0)
      : std::runtime_error(shortened(message)), line(at_line) {}
  static constexpr size_t kLongest = 4096;  ///< bytes; the rest of a message is cut off
  static std::string shortened(std::string_view message);  ///< to whole characters
  int line;                                                ///< 0: the current line of the evaluator
};

/// Python's range(); never longer than kMaxRange.
struct Range {
  int64_t start = 0;
  int64_t stop = 0;
  int64_t step = 1;

  static constexpr int64_t kMaxRange = 100'000;
  int64_t size() const;
  int64_t at(int64_t index) const { return start + index * step; }
};

/// The items of a list or a tuple; only Runtime makes them and only Value reads them.
struct Sequence {
  Values items;
  size_t depth = 1;
  bool is_group = false;  ///< from groupby: its items are also the attributes `grouper` and `list`
};

class Value {
 public:
  struct Undefined {
    std::shared_ptr<const std::string> why;
  };
  struct None {};
  struct Text {
    std::shared_ptr<const std::string> bytes;
    bool is_markup = false;  ///< marked as HTML that needs no escaping
  };
  struct List {
    std::shared_ptr<const Sequence> sequence;
  };
  struct Tuple {
    std::shared_ptr<const Sequence> sequence;
  };

  Value() : data_(None{}) {}
  explicit Value(bool value) : data_(value) {}
  explicit Value(int64_t value) : data_(value) {}
  explicit Value(double value) : data_(value) {}
  explicit Value(Range range) : data_(range) {}
  explicit Value(Text text) : data_(std::move(text)) {}
  explicit Value(List list) : data_(std::move(list)) {}
  explicit Value(Tuple tuple) : data_(std::move(tuple)) {}
  explicit Value(std::shared_ptr<const Dict> dict) : data_(std::move(dict)) {}
  explicit Value(std::shared_ptr<Object> object) : data_(std::move(object)) {}
  static Value undefined(Budget& budget, std::string why);
  static Value literal(std::string bytes);  ///< a text that is written in a template, or in ours

  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_int() const { return std::holds_alternative<int64_t>(data_); }
  bool is_float() const { return std::holds_alternative<double>(data_); }
  bool is_text() const { return std::holds_alternative<Text>(data_); }
  bool is_list() const { return std::holds_alternative<List>(data_); }
  bool is_tuple() const { return std::holds_alternative<Tuple>(data_); }
  bool is_dict() const { return std::holds_alternative<std::shared_ptr<const Dict>>(data_); }
  bool is_range() const { return std::holds_alternative<Range>(data_); }
  bool is_object() const { return std::holds_alternative<std::shared_ptr<Object>>(data_); }

  /// bool and int: what Python's int operations take.
  bool is_integral() const { return is_bool() || is_int(); }
  bool is_number() const { return is_integral() || is_float(); }

  // Each requires the value to be of its kind.
  bool as_bool() const { return std::get<bool>(data_); }
  int64_t as_int() const { return is_bool() ? int64_t{as_bool()} : std::get<int64_t>(data_); }
  double as_float() const;                           ///< any number
  const std::string& as_text(Budget& budget) const;  ///< charges all its bytes
  size_t text_size() const { return std::get<Text>(data_).bytes->size(); }
  bool is_markup() const { return is_text() && std::get<Text>(data_).is_markup; }
  /// Of a list or tuple. items() charges all of them, item_at() the one.
  const Values& items(Budget& budget) const;
  const Value& item_at(size_t index) const { return sequence().items[index]; }
  size_t item_count() const { return sequence().items.size(); }
  bool is_group() const { return is_tuple() && sequence().is_group; }
  const Dict& as_dict() const { return *std::get<std::shared_ptr<const Dict>>(data_); }
  const Range& as_range() const { return std::get<Range>(data_); }
  Object& as_object() const { return *std::get<std::shared_ptr<Object>>(data_); }
  const std::shared_ptr<Object>& object() const { return std::get<std::shared_ptr<Object>>(data_); }
  const std::string& why_undefined() const { return *std::get<Undefined>(data_).why; }

  /// The object as this class, or null.
  template <class T>
  T* as() const {
    return is_object() ? dynamic_cast<T*>(&as_object()) : nullptr;
  }

  std::string type_name() const;  ///< Python's type(x).__name__
  size_t depth() const;           ///< of nested containers; 0 for a scalar
  /// Python's `is`; equal small values are the same object.
  bool is_same(Budget& budget, const Value& other) const;

 private:
  const Sequence& sequence() const;

  std::variant<None,
               Undefined,
               bool,
               int64_t,
               double,
               Text,
               List,
               Tuple,
               std::shared_ptr<const Dict>,
               Range,
               std::shared_ptr<Object>>
      data_;
};

/// A dict in insertion order. Built by one owner, then shared as const.
class Dict {
 public:
  using Entry = std::pair<Value, Value>;
  Dict() = default;
  Dict(Dict&&) = default;
  Dict& operator=(Dict&&) = default;
  Dict copy(Budget& budget) const;

  /// Null if absent. Throws Failure for a key that Python cannot hash.
  const Value* find(Budget& budget, const Value& key) const;
  const Value* find(Budget& budget, std::string_view key) const;
  void set(Budget& budget, Value key, Value value);
  const std::vector<Entry>& entries(Budget& budget) const;  ///< charges all of them
  const Entry& entry_at(size_t index) const { return entries_[index]; }
  size_t size() const { return entries_.size(); }
  size_t depth() const { return depth_; }

 private:
  Dict(const Dict&) = default;
  template <class Key>
  size_t position(Budget& budget, const Key& key) const;  ///< size() if absent

  static constexpr size_t kLinear = 8;  ///< up to this size a search is faster than the index
  std::vector<Entry> entries_;
  std::unordered_multimap<size_t, size_t> index_;  ///< by hash_of(), if larger than kLinear
  size_t depth_ = 1;
};

/// Equal for keys that are the same in a Python dict (1, 1.0 and true). Throws Failure for a list
/// or dict, also inside a tuple.
size_t hash_of(Budget& budget, const Value& key);

struct Arguments {
  Values positional;
  std::vector<std::pair<std::string, Value>> keyword;
};

/// Values with identity: namespaces, callables, loops, iterators.
class Object {
 public:
  Object() = default;
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  virtual std::string type_name() const = 0;
  virtual void write_repr(Runtime& runtime, TextBuilder& out);
  virtual std::optional<Value> attribute(Runtime&, std::string_view) { return std::nullopt; }
  virtual bool is_callable() const { return false; }
  virtual Value call(Runtime&, const Arguments&);
  virtual std::optional<size_t> length(Runtime&) { return std::nullopt; }
  /// Drops its references, so that cycles of objects are freed.
  virtual void release() {}
};

}  // namespace reprise::jinja
