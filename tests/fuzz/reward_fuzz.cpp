// The output of a reward command: whatever it prints, in whatever pieces, is read to rewards or
// refused with c10::Error. The first byte says how many requests there are and how long a piece is.
#include "reward/reply_lines.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const size_t requests = 1 + (data[0] & 7U);
  const size_t piece = 1 + (data[0] >> 3U) * 16;
  std::string_view printed(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    reprise::reward::ReplyLines lines(requests, 0);
    while (!printed.empty() && !lines.is_complete()) {
      lines.add(printed.substr(0, piece));
      printed.remove_prefix(std::min(piece, printed.size()));
    }
    const auto rewards = lines.rewards();
    if (rewards.values.size() != requests || rewards.non_finite.size() > requests ||
        std::any_of(rewards.values.begin(), rewards.values.end(), [](double value) {
          return std::isinf(value);
        })) {
      __builtin_trap();
    }
  } catch (const c10::Error&) {
  }
  return 0;
}
