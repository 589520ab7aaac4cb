// Dictionaries: hashes and equality of keys are computed by walking them, which is charged.
#include "jinja/values/budget.h"
#include "jinja/values/value.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace reprise::jinja {
namespace {

/// The integer that a number is equal to as a key.
std::optional<int64_t> whole_key(const Value& key) {
  if (key.is_integral()) {
    return key.as_int();
  }
  const double number = key.as_float();
  return number == std::floor(number) && std::abs(number) < 9e18
             ? std::optional<int64_t>(static_cast<int64_t>(number))
             : std::nullopt;
}

size_t mixed(size_t hash, size_t more) {
  return (hash ^ (more + 0x9E3779B97F4A7C15U + (hash << 6U) + (hash >> 2U))) * 0x100000001B3U;
}

size_t hash_of_number(const Value& key) {
  if (const auto whole = whole_key(key)) {
    return mixed(1, static_cast<size_t>(*whole));
  }
  const double number = key.as_float();
  return std::isnan(number) ? 2 : mixed(2, std::hash<double>()(number));
}

size_t hash_of(Budget& budget, std::string_view key) {
  budget.read(key.size());
  return std::hash<std::string_view>()(key);
}

bool is_same_number(const Value& a, const Value& b) {
  const auto left = whole_key(a);
  const auto right = whole_key(b);
  if (left || right) {
    return left == right;
  }
  return a.as_float() == b.as_float() || (std::isnan(a.as_float()) && std::isnan(b.as_float()));
}

bool is_same_key(Budget& budget, const Value& a, std::string_view b) {
  budget.step();
  return a.is_text() && a.text_size() == b.size() && a.as_text(budget) == b;
}

bool is_same_key(Budget& budget, const Value& a, const Value& b) {
  const Budget::Nesting nesting(budget);
  if (b.is_text()) {
    return a.is_text() && a.text_size() == b.text_size() &&
           is_same_key(budget, a, std::string_view(b.as_text(budget)));
  }
  budget.step();
  if (a.is_number() && b.is_number()) {
    return is_same_number(a, b);
  }
  if (a.is_tuple() && b.is_tuple()) {
    bool is_same = a.item_count() == b.item_count();
    for (size_t i = 0; is_same && i < a.item_count(); ++i) {
      is_same = is_same_key(budget, a.item_at(i), b.item_at(i));
    }
    return is_same;
  }
  if (a.is_range() && b.is_range()) {
    const Range& left = a.as_range();
    const Range& right = b.as_range();
    return left.start == right.start && left.size() == right.size() && left.step == right.step;
  }
  return (a.is_undefined() && b.is_undefined()) || a.is_same(budget, b);
}

}  // namespace

size_t hash_of(Budget& budget, const Value& key) {
  const Budget::Nesting nesting(budget);
  budget.step();
  if (key.is_text()) {
    return hash_of(budget, std::string_view(key.as_text(budget)));
  }
  if (key.is_number()) {
    return hash_of_number(key);
  }
  if (key.is_tuple()) {
    size_t hash = 3;
    for (size_t i = 0; i < key.item_count(); ++i) {
      hash = mixed(hash, hash_of(budget, key.item_at(i)));
    }
    return hash;
  }
  if (key.is_range()) {
    const Range& range = key.as_range();
    return mixed(mixed(static_cast<size_t>(range.start), static_cast<size_t>(range.size())),
                 static_cast<size_t>(range.step));
  }
  if (key.is_list() || key.is_dict()) {
    throw Failure("unhashable type: '" + key.type_name() + "'");
  }
  return key.is_object() ? std::hash<const Object*>()(&key.as_object()) : key.is_none() ? 4 : 5;
}

template <class Key>
size_t Dict::position(Budget& budget, const Key& key) const {
  const size_t hash = hash_of(budget, key);  // also refuses what cannot be hashed
  if (entries_.size() > kLinear) {
    const auto [begin, end] = index_.equal_range(hash);
    for (auto found = begin; found != end; ++found) {
      if (is_same_key(budget, entries_[found->second].first, key)) {
        return found->second;
      }
    }
    return entries_.size();
  }
  size_t at = 0;
  while (at < entries_.size() && !is_same_key(budget, entries_[at].first, key)) {
    ++at;
  }
  return at;
}

Dict Dict::copy(Budget& budget) const {
  budget.step(entries_.size());
  budget.charge(entries_.size(), sizeof(Entry) + Budget::kObjectOverhead);
  return *this;
}

const Value* Dict::find(Budget& budget, const Value& key) const {
  const size_t at = position(budget, key);
  return at < entries_.size() ? &entries_[at].second : nullptr;
}

const Value* Dict::find(Budget& budget, std::string_view key) const {
  const size_t at = position(budget, key);
  return at < entries_.size() ? &entries_[at].second : nullptr;
}

const std::vector<Dict::Entry>& Dict::entries(Budget& budget) const {
  budget.step(entries_.size());
  return entries_;
}

void Dict::set(Budget& budget, Value key, Value value) {
  depth_ = std::max({depth_, key.depth() + 1, value.depth() + 1});
  if (const size_t at = position(budget, key); at < entries_.size()) {
    entries_[at].second = std::move(value);
    return;
  }
  // Twice, because the vector doubles, and a node of the index.
  budget.charge(2 * sizeof(Entry) + Budget::kObjectOverhead);
  entries_.emplace_back(std::move(key), std::move(value));
  if (entries_.size() <= kLinear) {
    return;
  }
  const size_t first = entries_.size() == kLinear + 1 ? 0 : entries_.size() - 1;
  for (size_t i = first; i < entries_.size(); ++i) {
    index_.emplace(hash_of(budget, entries_[i].first), i);
  }
}

}  // namespace reprise::jinja
