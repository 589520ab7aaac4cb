// Flags of other programs, with the answers of docs/migrating.md: its tables are compiled in, so
// that program and document cannot differ.
#pragma once

#include "reprise/training/flags/flags.h"

#include <string>
#include <vector>

namespace reprise::app {

/// A flag in the first column of a table there.
struct ForeignFlag {
  std::string name;        ///< without dashes; "vllm_*" stands for all that begin so
  std::string value;       ///< the row is about this value; in capitals: any; empty: all
  std::string program;     ///< whose it is
  bool is_online = false;  ///< in a table for grpo and ppo
  std::string here;        ///< what to write instead; empty: nothing
  std::string note;
};

const std::vector<ForeignFlag>& foreign_flags();
/// The tables of a document in the form of docs/migrating.md.
std::vector<ForeignFlag> read_foreign_flags(const std::string& document);

/// The row about `--name value`; null if no table has it. Tables for online training come first for
/// grpo and ppo, the others for other objectives.
const ForeignFlag* find_foreign_flag(const std::string& name,
                                     const std::string& value,
                                     Objective objective);

/// What to do instead, to be read behind the flag: " (TRL): here --text_key content".
std::string answer_of(const ForeignFlag& row, const std::string& value);

}  // namespace reprise::app
