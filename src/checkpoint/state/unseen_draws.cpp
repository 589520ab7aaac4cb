#include "checkpoint/state/unseen_draws.h"

#include <algorithm>
#include <mutex>
#include <typeindex>
#include <unordered_map>

namespace reprise::detail {
namespace {

constexpr int kEnough = 3;

struct UnfoundedSuspicions {
  std::mutex mutex;
  std::unordered_map<std::type_index, int> counts;
};

UnfoundedSuspicions& unfounded() {
  static UnfoundedSuspicions instance;
  return instance;
}

}  // namespace

UnseenDraws::UnseenDraws(const DrawLog& log, const std::vector<at::Generator>& listed) : log_(log) {
  const auto watch = [&](const at::Generator& generator) {
    const bool is_known =
        std::any_of(before_.begin(), before_.end(), [&](const GeneratorState& state) {
          return state.generator() == generator;
        });
    if (!is_known && std::find(listed.begin(), listed.end(), generator) == listed.end()) {
      before_.emplace_back(generator);
    }
  };
  if (log.has_unseen_draws()) {
    for (const auto& generator : default_generators()) {
      watch(generator);
    }
  }
  // A generator of the program's own becomes known by its first draw. It may have been seeded
  // before.
  for (size_t i = 0; i < log.size(); ++i) {
    const auto& generator = log[i].before.generator();
    if (generator != default_generator(generator.device())) {
      watch(generator);
    }
  }
}

bool UnseenDraws::settle() const {
  bool is_suspect = false;
  for (const auto& before : before_) {
    const auto now = before.now();
    if (now == before) {
      continue;
    }
    if (log_.led_to(now.mark()) || now.was_seeded_since(before)) {
      before.restore();
    } else {
      is_suspect = true;
    }
  }
  return is_suspect;
}

bool is_beyond_suspicion(const std::type_info& callable) {
  const std::scoped_lock lock(unfounded().mutex);
  const auto found = unfounded().counts.find(callable);
  return found != unfounded().counts.end() && found->second >= kEnough;
}

void count_unfounded_suspicion(const std::type_info& callable) {
  const std::scoped_lock lock(unfounded().mutex);
  ++unfounded().counts[callable];
}

}  // namespace reprise::detail
