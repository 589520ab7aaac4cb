// SIGINT and SIGTERM ask a run to stop after the current step; a second one ends the process at
// once. Exceeding the file size limit is reported as an error, like a full disk, instead of killing
// the process.
#pragma once

namespace reprise::app {

/// Call it before training.
void listen_for_stop_signals();
bool stop_requested();

}  // namespace reprise::app
