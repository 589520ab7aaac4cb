// What the generator knows about the registers of the program that it is making, so that most
// programs run without an error: types, gradients, who shares memory, what autograd has saved.
#pragma once

#include "fuzz/programs/operators.h"
#include "fuzz/programs/program.h"

#include <algorithm>
#include <set>
#include <vector>

namespace reprise::fuzz {

/// Memory that one or more registers share.
struct Memory {
  bool is_saved = false;           ///< autograd needs it unchanged
  bool is_read_by_region = false;  ///< a finished region will read it again
  bool is_leaf = false;            ///< there before the program starts
  bool is_leaf_with_grad = false;
  bool is_foreign = false;  ///< not to be written: it may be memory of something else
  int region = 0;           ///< number of the region that made it; 0: outside of all
};

struct Known {
  char type = 'a';
  bool has_grad = false;
  bool is_one_of_many_views = false;
  size_t memory = 0;
};

/// A region, while its body is being made.
struct OpenRegion {
  int number = 0;
  std::set<size_t> read = {};  ///< memories
  std::set<size_t> written = {};
  bool draws = false;
  bool draws_directly = false;
  bool has_matmul = false;  ///< of its own, not of an inner region
  bool has_mask = false;
  bool is_unhashable = false;
  std::vector<std::string> kept = {};  ///< operators of its own that save_ops can name
};

class Knowledge {
 public:
  Register add(Known known) {
    known_.push_back(known);
    return static_cast<Register>(known_.size()) - 1;
  }
  size_t add_memory(const Memory& memory) {
    memories_.push_back(memory);
    return memories_.size() - 1;
  }
  /// A register with memory of its own.
  Register add_new(char type, bool has_grad) {
    return add({type, has_grad, false, add_memory({.region = region_number()})});
  }
  Known& of(Register reg) { return known_[static_cast<size_t>(reg)]; }
  Memory& memory_of(Register reg) { return memories_[of(reg).memory]; }
  int count() const { return static_cast<int>(known_.size()); }

  int region_number() const { return open_.empty() ? 0 : open_.back().number; }
  int depth() const { return static_cast<int>(open_.size()); }
  /// Whether it is the number of a region that has ended.
  bool is_closed(int region) const {
    return region != 0 && std::none_of(open_.begin(), open_.end(), [region](const auto& open) {
             return open.number == region;
           });
  }
  OpenRegion* innermost() { return open_.empty() ? nullptr : &open_.back(); }
  void open_region() { open_.push_back({.number = ++regions_}); }
  OpenRegion close_region();

  void note_read(Register reg) {
    if (!open_.empty()) {
      open_.back().read.insert(of(reg).memory);
    }
  }
  void note_written(Register reg) {
    if (!open_.empty()) {
      open_.back().written.insert(of(reg).memory);
    }
  }
  /// All that shares memory with `reg` now has a gradient.
  void give_grad(Register reg);
  /// A backward call has freed the graph.
  void forget_graph();

 private:
  std::vector<Known> known_;
  std::vector<Memory> memories_;
  std::vector<OpenRegion> open_;
  int regions_ = 0;
};

inline OpenRegion Knowledge::close_region() {
  OpenRegion closed = std::move(open_.back());
  open_.pop_back();
  for (const size_t memory : closed.read) {
    if (!closed.written.contains(memory)) {
      memories_[memory].is_read_by_region = true;
    }
  }
  if (!open_.empty()) {
    open_.back().read.insert(closed.read.begin(), closed.read.end());
    open_.back().written.insert(closed.written.begin(), closed.written.end());
    open_.back().draws = open_.back().draws || closed.draws;
    open_.back().draws_directly = open_.back().draws_directly || closed.draws_directly;
  }
  return closed;
}

inline void Knowledge::give_grad(Register reg) {
  const size_t memory = of(reg).memory;
  for (auto& known : known_) {
    known.has_grad = known.has_grad || known.memory == memory;
  }
}

inline void Knowledge::forget_graph() {
  for (auto& memory : memories_) {
    memory.is_saved = false;
    memory.is_read_by_region = false;
  }
}

}  // namespace reprise::fuzz
