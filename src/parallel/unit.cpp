#include "parallel/unit.h"

#include <algorithm>
#include <utility>

namespace reprise {

Unit::Unit(std::string name, std::vector<FlatGroup> groups)
    : name_(std::move(name)), groups_(std::move(groups)) {}

bool Unit::is_sharded() const {
  return std::any_of(
      groups_.begin(), groups_.end(), [](const FlatGroup& group) { return group.is_sharded(); });
}

int64_t Unit::whole_bytes() const {
  int64_t bytes = 0;
  for (const FlatGroup& group : groups_) {
    bytes += group.is_sharded() ? group.whole_bytes() : 0;
  }
  return bytes;
}

int64_t Unit::gradient_bytes() const {
  int64_t bytes = 0;
  for (const FlatGroup& group : groups_) {
    bytes += group.gradient_bytes();
  }
  return bytes;
}

bool Unit::start_gather() {
  if (is_gathered_ || !is_sharded()) {
    return false;
  }
  for (FlatGroup& group : groups_) {
    group.start_gather("the parameters of " + name_);
  }
  is_gathered_ = true;
  return true;
}

void Unit::finish_gather() {
  for (FlatGroup& group : groups_) {
    group.finish_gather();
  }
}

void Unit::free() {
  if (!is_gathered_) {
    return;
  }
  for (FlatGroup& group : groups_) {
    group.free();
  }
  is_gathered_ = false;
}

void Unit::start_sync() {
  for (FlatGroup& group : groups_) {
    if (group.is_trained() && !group.is_sharded()) {
      group.start_sync("the updated parameters of " + name_);
    }
  }
}

bool Unit::start_reduction() {
  bool has_any = false;
  for (FlatGroup& group : groups_) {
    if (group.is_trained()) {
      has_any = group.start_reduction("the gradients of " + name_) || has_any;
    }
  }
  return has_any;
}

void Unit::finish_reduction() {
  for (FlatGroup& group : groups_) {
    group.finish_reduction();
  }
}

}  // namespace reprise
