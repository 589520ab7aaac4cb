// The growth of texts and lists.
#include "jinja/values/builders.h"

#include "text/unicode/utf8.h"

#include <algorithm>
#include <limits>

namespace reprise::jinja {

void TextBuilder::grow(size_t bytes) {
  const size_t wanted = std::max(2 * text_.capacity(), text_.size() + bytes);
  budget_->charge(wanted);
  text_.reserve(wanted);
}

void TextBuilder::add_code_point(int32_t code_point) {
  make_room(4);
  text::append_utf8(text_, static_cast<char32_t>(code_point));
}

void TextBuilder::add_repeated(std::string_view part, size_t count) {
  if (part.empty() || count == 0) {
    return;
  }
  // Refuses a product beyond any memory; grow() charges what is taken.
  const bool overflows = count > std::numeric_limits<size_t>::max() / 4 / part.size();
  make_room(overflows ? std::numeric_limits<size_t>::max() / 4 : count * part.size());
  if (part.size() == 1) {
    text_.append(count, part[0]);
    return;
  }
  budget_->read(count * part.size());
  for (size_t i = 0; i < count; ++i) {
    text_ += part;
  }
}

void ItemBuilder::reserve(size_t size) {
  if (size > items_.capacity()) {
    const size_t wanted = std::max(2 * items_.capacity(), size);
    budget_->charge(wanted, sizeof(Value));
    items_.reserve(wanted);
  }
}

void ItemBuilder::add(const Values& more) {
  reserve(items_.size() + more.size());
  items_.insert(items_.end(), more.begin(), more.end());
}

}  // namespace reprise::jinja
