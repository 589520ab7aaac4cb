// SIGINT and SIGTERM ask a run to stop after its step; a second one ends the process at once. A
// limit on the size of files is an error that is reported, as a full disk is, and not the end.
#pragma once

namespace reprise::app {

/// To be called before training.
void listen_for_stop_signals();
bool stop_requested();

}  // namespace reprise::app
