// Tokenises one data file into its cache.
#pragma once

#include "data/dataset/row_rules.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace reprise::data {

struct TokenizeFileOptions {
  bool skip_bad_rows = false;
  int64_t max_rows = -1;  ///< -1: all
  std::function<void(int64_t rows, double fraction)> progress = {};
  std::string key = {};  ///< of the cache
};

/// Writes a complete cache to `folder`, or throws and leaves none.
void tokenize_file(const std::filesystem::path& file,
                   const RowRules& rules,
                   const TokenizeFileOptions& options,
                   const std::filesystem::path& folder);

}  // namespace reprise::data
