// One data file, read, tokenised and written to its cache.
#pragma once

#include "data/row_rules.h"

#include <cstdint>
#include <filesystem>
#include <functional>

namespace reprise::detail {

struct TokenizeFileOptions {
  bool skip_bad_rows = false;
  int64_t max_rows = -1;  ///< -1: all
  std::function<void(int64_t rows, double fraction)> progress = {};
};

/// Leaves a whole cache in `folder`, or throws and leaves none.
void tokenize_file(const std::filesystem::path& file,
                   const RowRules& rules,
                   const TokenizeFileOptions& options,
                   const std::filesystem::path& folder);

}  // namespace reprise::detail
