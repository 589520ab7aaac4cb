// A dataset made of the caches of its files.
#pragma once

#include "data/example_cache.h"

#include <reprise/data/dataset.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace reprise::detail {

/// `names` of the files, for messages. `order`: indices into the files' examples one after the
/// other; empty: as they stand.
std::shared_ptr<const Dataset> view_files(std::vector<std::shared_ptr<const ExampleCache>> files,
                                          std::vector<std::string> names,
                                          std::vector<int64_t> order);

}  // namespace reprise::detail
