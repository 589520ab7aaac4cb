// Values: kinds, contents and identity.
#include "jinja/values/value.h"

#include "jinja/values/budget.h"
#include "jinja/values/builders.h"
#include "text/unicode/utf8.h"

#include <algorithm>

namespace reprise::jinja {

std::string Failure::shortened(std::string_view message) {
  size_t end = std::min(message.size(), kLongest);
  while (end > 0 && end < message.size() && text::is_continuation(message[end])) {
    --end;
  }
  return std::string(message.substr(0, end));
}

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

Value Value::undefined(Budget& budget, std::string why) {
  budget.charge(why.size() + Budget::kObjectOverhead);
  Value value;
  value.data_ = Undefined{std::make_shared<const std::string>(std::move(why))};
  return value;
}

Value Value::literal(std::string bytes) {
  return Value(Text{std::make_shared<const std::string>(std::move(bytes)), false});
}

double Value::as_float() const {
  return is_float() ? std::get<double>(data_) : static_cast<double>(as_int());
}

const std::string& Value::as_text(Budget& budget) const {
  budget.read(text_size());
  return *std::get<Text>(data_).bytes;
}

const Values& Value::items(Budget& budget) const {
  budget.step(item_count());
  return sequence().items;
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

bool Value::is_same(Budget& budget, const Value& other) const {
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
    return is_same_text(budget, *std::get<Text>(data_).bytes, *std::get<Text>(other.data_).bytes);
  }
  if (is_list() || is_tuple()) {
    return &sequence() == &other.sequence();
  }
  if (is_dict()) {
    return &as_dict() == &other.as_dict();
  }
  return is_object() && &as_object() == &other.as_object();
}

void Object::write_repr(Runtime&, TextBuilder& out) {
  out.add("<" + type_name() + " object>");
}

Value Object::call(Runtime&, const Arguments&) {
  throw Failure("'" + type_name() + "' object is not callable");
}

}  // namespace reprise::jinja
