// Implementation of the objects.
#include "jinja/values/objects.h"

#include "jinja/arguments.h"
#include "jinja/values/repr.h"

#include <algorithm>

namespace reprise::jinja {

std::string Namespace::repr(Runtime& runtime) {
  Dict attributes;
  for (const auto& [name, value] : attributes_) {
    attributes.set(Value::text(name), value);
  }
  return "<Namespace " + to_repr(runtime, runtime.dict(std::move(attributes))) + ">";
}

std::optional<Value> Namespace::attribute(Runtime&, std::string_view name) {
  for (const auto& [key, value] : attributes_) {
    if (key == name) {
      return value;
    }
  }
  return std::nullopt;
}

void Namespace::set(Runtime& runtime, const std::string& name, Value value) {
  for (auto& [key, old] : attributes_) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  runtime.charge(name.size() + sizeof(Value));
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

std::string DictView::repr(Runtime& runtime) {
  return type_ + "(" + to_repr(runtime, items_) + ")";
}

std::optional<Value> Cycler::attribute(Runtime& runtime, std::string_view name) {
  if (name == "current") {
    return items_[position_];
  }
  if (name == "items") {
    return runtime.tuple(items_);
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
  return std::exchange(used_, true) ? separator_ : Value::text("");
}

Value make_function(Runtime& runtime, std::string name, Function::Body body) {
  return Value(std::shared_ptr<Object>(runtime.make<Function>(std::move(name), std::move(body))));
}

Value make_iterator(Runtime& runtime, std::string type, Iterator::Next next) {
  return Value(std::shared_ptr<Object>(runtime.make<Iterator>(std::move(type), std::move(next))));
}

Value make_iterator_over(Runtime& runtime, std::string type, Values items) {
  runtime.charge(items.size(), sizeof(Value));
  return make_iterator(runtime,
                       std::move(type),
                       [items = std::move(items), at = size_t{0}](Runtime&, Value& item) mutable {
                         if (at >= items.size()) {
                           return false;
                         }
                         item = items[at++];
                         return true;
                       });
}

}  // namespace reprise::jinja
