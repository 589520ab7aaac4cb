#include "model/layers/joined_blocks.h"

#include <utility>

namespace reprise {

std::optional<detail::JoinedRegions> joined_from(
    const std::vector<std::shared_ptr<const CheckpointOptions>>& regions, size_t first) {
  std::vector<const CheckpointOptions*> chain;
  for (size_t i = first; i < regions.size() && regions[i] != nullptr; ++i) {
    chain.push_back(regions[i].get());
  }
  return detail::ask_to_join(chain);
}

at::Tensor run_joined(const detail::JoinedRegions& joined,
                      const std::vector<std::shared_ptr<Block>>& blocks,
                      const std::vector<AttentionContext>& contexts,
                      size_t first,
                      const Pass& pass,
                      at::Tensor x) {
  const auto run = [&](size_t i) {
    return [block = blocks[i], context = contexts[i], pass](const at::Tensor& input) {
      return block->forward(input, context, pass);
    };
  };
  std::vector<decltype(run(first))> functions;
  for (size_t i = first; i < first + joined.inside.size(); ++i) {
    functions.push_back(run(i));
  }
  return detail::call_joined(joined, std::move(functions), std::move(x));
}

}  // namespace reprise
