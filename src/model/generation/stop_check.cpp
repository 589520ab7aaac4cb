#include "model/generation/stop_check.h"

#include <c10/util/Exception.h>

#include <algorithm>

namespace reprise::model {

StopCheck::StopCheck(const GenerateOptions& options)
    : options_(options), stop_ids_(options.stop_ids.begin(), options.stop_ids.end()) {
  TORCH_CHECK(options.stop_strings.empty() || options.decode,
              "[generate] stop_strings need decode, which turns ids into text.");
  for (const auto& text : options.stop_strings) {
    TORCH_CHECK(!text.empty(),
                "[generate] stop_strings: an empty string would end every sequence.");
    longest_string_ = std::max(longest_string_, text.size());
  }
}

bool StopCheck::ends(const std::vector<int64_t>& ids) const {
  if (stop_ids_.contains(ids.back())) {
    return true;
  }
  if (options_.stop_strings.empty()) {
    return false;
  }
  // A string that was just completed ends in the last token. Nearly every token has at least one
  // byte, so as many tokens as the string has bytes contain all of it; the surplus is for tokens
  // without text and for decoders that treat the first token differently. Decoding all tokens each
  // time would make the cost quadratic.
  constexpr size_t kSurplus = 16;
  const size_t window = std::min(ids.size(), longest_string_ + kSurplus);
  const std::string text =
      options_.decode({ids.end() - static_cast<std::ptrdiff_t>(window), ids.end()});
  return std::any_of(options_.stop_strings.begin(),
                     options_.stop_strings.end(),
                     [&](const std::string& stop) { return text.find(stop) != text.npos; });
}

}  // namespace reprise::model
