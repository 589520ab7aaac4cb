// The parameters that are gathered and reduced together: those of the embeddings, a block, or the
// top (last norm and head).
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
  bool is_sharded() const;
  int64_t whole_bytes() const;     ///< of its sharded groups
  int64_t gradient_bytes() const;  ///< input of a gradient reduction

  /// Starts to gather the parameters. False if they are gathered or on their way.
  bool start_gather();
  void finish_gather();
  void free();

  /// All-gathers updated parameters that are not sharded. finish_gather() completes it.
  void start_sync();
  /// False if there was no gradient.
  bool start_reduction();
  void finish_reduction();

 private:
  std::string name_;
  std::vector<FlatGroup> groups_;
  bool is_gathered_ = false;  // or on its way
};

}  // namespace reprise
