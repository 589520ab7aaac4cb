// Compares the number of entered regions before and after, over all threads of the process.
#include "model/without_checkpointing.h"

#include <reprise/stats.h>

#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <cstddef>

namespace reprise {

void without_checkpointing(const char* what, const std::function<void()>& pass) {
  record_checkpoint_stats(true);
  const size_t before = checkpoint_stats().total.entered;
  {
    const at::NoGradGuard no_grad;
    pass();
  }
  const size_t entered = checkpoint_stats().total.entered - before;
  TORCH_CHECK(entered == 0,
              "[checkpointing] ",
              what,
              " entered ",
              entered,
              " checkpointed regions, although it needs no gradients.");
}

}  // namespace reprise
