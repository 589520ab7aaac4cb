// Knuth-Morris-Pratt search in either direction.
#include "jinja/values/substring_search.h"

namespace reprise::jinja {

SubstringSearch::SubstringSearch(Runtime& runtime, std::string_view wanted, Direction direction)
    : runtime_(runtime), wanted_(wanted), direction_(direction) {
  runtime_.step();
  runtime_.read(wanted.size());
  runtime_.charge(wanted.size() + 1, sizeof(size_t));
  shorter_.resize(wanted.size() + 1, 0);
  for (size_t i = 1, matched = 0; i < wanted.size(); ++i) {
    while (matched > 0 && at(wanted, i) != at(wanted, matched)) {
      matched = shorter_[matched];
    }
    matched += at(wanted, i) == at(wanted, matched) ? 1 : 0;
    shorter_[i + 1] = matched;
  }
}

char SubstringSearch::at(std::string_view text, size_t index) const {
  return text[direction_ == Direction::Forward ? index : text.size() - 1 - index];
}

size_t SubstringSearch::find(std::string_view text) const {
  runtime_.step();
  const bool forward = direction_ == Direction::Forward;
  if (wanted_.empty()) {
    return forward ? 0 : text.size();
  }
  size_t matched = 0;
  size_t read = 0;
  while (read < text.size() && matched < wanted_.size()) {
    const char next = at(text, read);
    while (matched > 0 && next != at(wanted_, matched)) {
      matched = shorter_[matched];
    }
    matched += next == at(wanted_, matched) ? 1 : 0;
    ++read;
  }
  runtime_.read(read);
  if (matched < wanted_.size()) {
    return std::string_view::npos;
  }
  return forward ? read - wanted_.size() : text.size() - read;
}

}  // namespace reprise::jinja
