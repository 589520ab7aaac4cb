// Files are drawn as numpy's Generator.choice(p = ...) does: by a search in the cumulative weights.
#include "data/dataset/mixture.h"

#include "data/dataset/numpy_random.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace reprise::data {

void check_weights(const std::vector<DataFile>& files) {
  const bool has_weights = files.front().weight != 0;
  for (const DataFile& file : files) {
    TORCH_CHECK(std::isfinite(file.weight) && file.weight >= 0,
                "[data] ",
                file.path.string(),
                ": expected a weight above 0, found ",
                file.weight);
    TORCH_CHECK((file.weight != 0) == has_weights,
                "[data] ",
                file.path.string(),
                ": either all files have a weight, or none");
  }
}

bool is_mixture(const std::vector<DataFile>& files) {
  return files.size() > 1 && files.front().weight != 0;
}

std::vector<int64_t> mixture_order(std::span<const int64_t> sizes,
                                   std::span<const double> weights,
                                   uint64_t seed) {
  TORCH_INTERNAL_ASSERT(sizes.size() == weights.size() && !sizes.empty());
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  TORCH_CHECK(std::isfinite(total), "[data] the weights of the files add up to infinity");
  std::vector<double> ends;
  std::vector<int64_t> next, last;
  double weight_before = 0;
  int64_t examples_before = 0;
  for (size_t file = 0; file < sizes.size(); ++file) {
    TORCH_INTERNAL_ASSERT(sizes[file] > 0 && weights[file] > 0);
    weight_before += weights[file] / total;
    ends.push_back(weight_before);
    next.push_back(examples_before);
    examples_before += sizes[file];
    last.push_back(examples_before - 1);
  }
  for (double& end : ends) {
    end /= weight_before;
  }
  NumpyRandom random(seed);
  std::vector<int64_t> order;
  while (true) {
    const auto drawn = std::upper_bound(ends.begin(), ends.end(), random.uniform());
    const auto file = static_cast<size_t>(drawn - ends.begin());
    order.push_back(next[file]);
    if (next[file]++ == last[file]) {
      return order;
    }
  }
}

}  // namespace reprise::data
