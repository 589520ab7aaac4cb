// The parameters that are gathered and reduced together: the embeddings, a block, or the top.
#pragma once

#include "parallel/flat_group.h"

#include <cstdint>
#include <string>
#include <vector>

namespace reprise {

class Unit {
 public:
  Unit(std::string name, std::vector<FlatGroup> groups);

  const std::string& name() const { return name_; }
  const std::vector<FlatGroup>& groups() const { return groups_; }
  std::vector<FlatGroup>& groups() { return groups_; }
  bool is_cut() const;
  int64_t whole_bytes() const;     ///< of what is cut
  int64_t gradient_bytes() const;  ///< that a reduction hands in

  /// Begins to bring the parameters here, unless they are or are on their way. True: it began.
  bool start_gather();
  void finish_gather();
  void free();

  void start_sharing();  ///< until finish_gather()
  /// True if there was a gradient.
  bool start_reduction();
  void finish_reduction();

 private:
  std::string name_;
  std::vector<FlatGroup> groups_;
  bool is_here_ = false;  // or on its way
};

}  // namespace reprise
