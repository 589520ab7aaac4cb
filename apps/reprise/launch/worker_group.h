// The processes of the world on this machine. If one fails, all are ended.
#pragma once

#include "reprise/launch/signal_inbox.h"
#include "reprise/launch/worker.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace reprise::app {

struct GroupEnd {
  std::optional<int64_t> failed_rank;  ///< the first that failed; std::nullopt: all succeeded
  WorkerEnd end;                       ///< how that one ended
  bool was_stopped = false;            ///< by SIGINT, SIGTERM or SIGHUP
};

/// Starts one process per command, the first with rank `first_rank`, and waits for all of them.
/// Forwards every SIGINT and SIGTERM, and the first SIGHUP as SIGTERM. When a process fails, the
/// others get SIGTERM, and SIGKILL if they are still running after `grace`; once one of them has
/// ended, the rest have a sixth of `grace`. When it returns or throws, all of them and the
/// processes they started are gone.
GroupEnd run_group(const std::vector<WorkerCommand>& commands,
                   int64_t first_rank,
                   std::chrono::milliseconds grace,
                   const SignalInbox& inbox);

}  // namespace reprise::app
