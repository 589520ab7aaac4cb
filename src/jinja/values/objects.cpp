// Implementation of the objects.
#include "jinja/values/objects.h"

#include "jinja/arguments.h"
#include "jinja/values/repr.h"

#include <algorithm>

namespace reprise::jinja {

void Namespace::write_repr(Runtime& runtime, TextBuilder& out) {
  Dict attributes;
  for (const auto& [name, value] : attributes_) {
    attributes.set(runtime, runtime.text(name), value);
  }
  out.add("<Namespace ");
  jinja::write_repr(runtime, out, runtime.dict(std::move(attributes)));
  out.add(">");
}

Value* Namespace::find(Runtime& runtime, std::string_view name) {
  for (auto& [key, value] : attributes_) {
    runtime.step();
    if (is_same_text(runtime, key, name)) {
      return &value;
    }
  }
  return nullptr;
}

std::optional<Value> Namespace::attribute(Runtime& runtime, std::string_view name) {
  const Value* found = find(runtime, name);
  return found != nullptr ? std::optional<Value>(*found) : std::nullopt;
}

void Namespace::set(Runtime& runtime, std::string_view name, Value value) {
  if (Value* old = find(runtime, name)) {
    *old = std::move(value);
    return;
  }
  runtime.charge(name.size() + 2 * sizeof(attributes_[0]));
  attributes_.emplace_back(name, std::move(value));
}

bool Iterator::next(Runtime& runtime, Value& item) {
  if (running_) {
    throw Failure(type_ + " already executing");
  }
  running_ = true;
  const bool found = next_(runtime, item);
  running_ = false;
  return found;
}

void DictView::write_repr(Runtime& runtime, TextBuilder& out) {
  out.add(type_ + "(");
  jinja::write_repr(runtime, out, items_);
  out.add(")");
}

std::optional<Value> Cycler::attribute(Runtime& runtime, std::string_view name) {
  if (name == "current") {
    return items_[position_];
  }
  if (name == "items") {
    ItemBuilder items(runtime);
    items.add(items_);
    return runtime.tuple(std::move(items));
  }
  if (name == "pos") {
    return Value(static_cast<int64_t>(position_));
  }
  if (name == "next") {
    return make_function(runtime, "next", [this](Runtime&, const Arguments& arguments) {
      refuse_arguments("next", arguments);
      Value result = items_[position_];
      position_ = (position_ + 1) % items_.size();
      return result;
    });
  }
  if (name == "reset") {
    return make_function(runtime, "reset", [this](Runtime&, const Arguments& arguments) {
      refuse_arguments("reset", arguments);
      position_ = 0;
      return Value();
    });
  }
  return std::nullopt;
}

Value Joiner::call(Runtime&, const Arguments& arguments) {
  refuse_arguments("joiner", arguments);
  return std::exchange(used_, true) ? separator_ : Value::literal("");
}

Value make_function(Runtime& runtime, std::string_view name, Function::Body body) {
  return Value(std::shared_ptr<Object>(runtime.make<Function>(std::string(name), std::move(body))));
}

Value make_iterator(Runtime& runtime, std::string type, Iterator::Next next) {
  return Value(std::shared_ptr<Object>(runtime.make<Iterator>(std::move(type), std::move(next))));
}

Value make_iterator_over(Runtime& runtime, std::string type, ItemBuilder items) {
  return make_iterator(runtime,
                       std::move(type),
                       [items = items.take(), at = size_t{0}](Runtime&, Value& item) mutable {
                         if (at >= items.size()) {
                           return false;
                         }
                         item = items[at++];
                         return true;
                       });
}

}  // namespace reprise::jinja
