// The processes of a world on this machine: they live together, and die together.
#pragma once

#include "reprise/launch/signal_inbox.h"
#include "reprise/launch/worker.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace reprise::app {

struct GroupEnd {
  std::optional<int64_t> failed_rank;  ///< the first that failed; none: all ended well
  WorkerEnd end;                       ///< of the first that failed
  bool was_stopped = false;            ///< SIGINT, SIGTERM or SIGHUP came
};

/// Starts one process for each command, the first with rank `first_rank`, and waits for all of
/// them. SIGINT and SIGTERM are passed on, each time they come; SIGHUP once, as SIGTERM. When one
/// fails the others get SIGTERM, and SIGKILL if they are still there after `grace`; as soon as one
/// of them has obeyed, the rest have a sixth of it. Nothing of them, nor of what they started, is
/// left when it returns or throws.
GroupEnd run_group(const std::vector<WorkerCommand>& commands,
                   int64_t first_rank,
                   std::chrono::milliseconds grace,
                   const SignalInbox& inbox);

}  // namespace reprise::app
