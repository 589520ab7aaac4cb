// A dataset over the caches of its files.
#pragma once

#include "data/dataset/example_cache.h"

#include <reprise/data/dataset.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace reprise::data {

/// `names`: of the files, for error messages. `order`: indices into the concatenated examples of
/// all files; empty: in their own order.
std::shared_ptr<const Dataset> view_files(std::vector<std::shared_ptr<const ExampleCache>> files,
                                          std::vector<std::string> names,
                                          std::vector<int64_t> order);

}  // namespace reprise::data
