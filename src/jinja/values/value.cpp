// Values: kinds, identity, and dictionaries.
#include "jinja/values/value.h"

#include "jinja/values/repr.h"

#include <algorithm>
#include <cmath>

namespace reprise::jinja {

int64_t Range::size() const {
  if (step > 0 ? start >= stop : start <= stop) {
    return 0;
  }
  // Unsigned, because the distance may exceed int64.
  const auto low = static_cast<uint64_t>(step > 0 ? start : stop);
  const auto high = static_cast<uint64_t>(step > 0 ? stop : start);
  const auto stride =
      step > 0 ? static_cast<uint64_t>(step) : uint64_t{0} - static_cast<uint64_t>(step);
  const uint64_t count = (high - low - 1) / stride + 1;
  return static_cast<int64_t>(std::min<uint64_t>(count, INT64_MAX));
}

Value Value::undefined(std::string why) {
  Value value;
  value.data_ = Undefined{std::make_shared<const std::string>(std::move(why))};
  return value;
}

Value Value::text(std::string bytes) {
  return Value(Text{std::make_shared<const std::string>(std::move(bytes)), false});
}

double Value::as_float() const {
  return is_float() ? std::get<double>(data_) : static_cast<double>(as_int());
}

const Sequence& Value::sequence() const {
  return is_list() ? *std::get<List>(data_).sequence : *std::get<Tuple>(data_).sequence;
}

std::string Value::type_name() const {
  struct Namer {
    std::string operator()(const None&) const { return "NoneType"; }
    std::string operator()(const Undefined&) const { return "Undefined"; }
    std::string operator()(bool) const { return "bool"; }
    std::string operator()(int64_t) const { return "int"; }
    std::string operator()(double) const { return "float"; }
    std::string operator()(const Text& text) const { return text.is_markup ? "Markup" : "str"; }
    std::string operator()(const List&) const { return "list"; }
    std::string operator()(const Tuple&) const { return "tuple"; }
    std::string operator()(const std::shared_ptr<const Dict>&) const { return "dict"; }
    std::string operator()(const Range&) const { return "range"; }
    std::string operator()(const std::shared_ptr<Object>& object) const {
      return object->type_name();
    }
  };
  return std::visit(Namer{}, data_);
}

size_t Value::depth() const {
  if (is_list() || is_tuple()) {
    return sequence().depth;
  }
  return is_dict() ? as_dict().depth() : 0;
}

bool Value::is_same(const Value& other) const {
  if (data_.index() != other.data_.index()) {
    return false;
  }
  if (is_none()) {
    return true;
  }
  if (is_bool() || is_int()) {
    return as_int() == other.as_int();
  }
  if (is_text()) {
    return as_text() == other.as_text();
  }
  if (is_list() || is_tuple()) {
    return &sequence() == &other.sequence();
  }
  if (is_dict()) {
    return &as_dict() == &other.as_dict();
  }
  return is_object() && &as_object() == &other.as_object();
}

std::string hash_key(const Value& key) {
  if (key.is_text()) {
    return "s" + key.as_text();
  }
  if (key.is_integral()) {
    return "i" + std::to_string(key.as_int());
  }
  if (key.is_float()) {
    const double number = key.as_float();
    const bool is_whole = number == std::floor(number) && std::abs(number) < 9e18;
    return is_whole ? "i" + std::to_string(static_cast<int64_t>(number)) : "f" + float_repr(number);
  }
  if (key.is_tuple()) {
    std::string joined = "t";
    for (const Value& item : key.items()) {
      const std::string part = hash_key(item);
      joined += std::to_string(part.size()) + ":" + part;
    }
    return joined;
  }
  if (key.is_range()) {
    const Range& range = key.as_range();
    return "r" + std::to_string(range.start) + ":" + std::to_string(range.size()) + ":" +
           std::to_string(range.step);
  }
  if (key.is_object()) {
    return "o" + std::to_string(reinterpret_cast<uintptr_t>(&key.as_object()));
  }
  if (key.is_list() || key.is_dict()) {
    throw Failure("unhashable type: '" + key.type_name() + "'");
  }
  return key.is_none() ? "n" : "u";
}

size_t Dict::position(const Value& key) const {
  const std::string wanted = hash_key(key);
  if (entries_.size() > kLinear) {
    const auto found = index_.find(wanted);
    return found == index_.end() ? entries_.size() : found->second;
  }
  size_t at = 0;
  while (at < entries_.size() && hash_key(entries_[at].first) != wanted) {
    ++at;
  }
  return at;
}

const Value* Dict::find(const Value& key) const {
  if (key.is_text()) {
    return find(std::string_view(key.as_text()));
  }
  const size_t at = position(key);
  return at < entries_.size() ? &entries_[at].second : nullptr;
}

const Value* Dict::find(std::string_view key) const {
  if (entries_.size() > kLinear) {
    std::string wanted = "s";
    wanted += key;
    const auto found = index_.find(wanted);
    return found == index_.end() ? nullptr : &entries_[found->second].second;
  }
  for (const auto& [candidate, value] : entries_) {
    if (candidate.is_text() && candidate.as_text() == key) {
      return &value;
    }
  }
  return nullptr;
}

void Dict::set(Value key, Value value) {
  depth_ = std::max({depth_, key.depth() + 1, value.depth() + 1});
  if (const size_t at = position(key); at < entries_.size()) {
    entries_[at].second = std::move(value);
    return;
  }
  entries_.emplace_back(std::move(key), std::move(value));
  if (entries_.size() == kLinear + 1) {
    for (size_t i = 0; i < entries_.size(); ++i) {
      index_.emplace(hash_key(entries_[i].first), i);
    }
  } else if (entries_.size() > kLinear) {
    index_.emplace(hash_key(entries_.back().first), entries_.size() - 1);
  }
}

Value Object::call(Runtime&, const Arguments&) {
  throw Failure("'" + type_name() + "' object is not callable");
}

}  // namespace reprise::jinja
