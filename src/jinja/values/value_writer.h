// What the writers of repr() and of JSON share: a text that is charged to the runtime as it grows,
// so that a small value with a long text (a list that holds one long string a thousand times) is
// bounded too.
#pragma once

#include "jinja/runtime.h"

#include <string>
#include <string_view>
#include <utility>

namespace reprise::jinja {

class ValueWriter {
 public:
  std::string take() { return std::move(text_); }

 protected:
  explicit ValueWriter(Runtime& runtime) : runtime_(runtime) {}

  void add(std::string_view more) {
    runtime_.charge(more.size());
    text_ += more;
  }

  Runtime& runtime_;

 private:
  std::string text_;
};

}  // namespace reprise::jinja
