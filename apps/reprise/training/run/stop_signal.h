// SIGINT and SIGTERM ask a run to stop after the current step; the answer is printed at once. A
// second one, at least a second later, ends the process; so does the first one while there is
// nothing to save yet. Exceeding the file size limit is reported as an error, like a full disk,
// instead of killing the process.
#pragma once

namespace reprise::app {

enum class StopAnswers : unsigned char { Printed, Silent };

/// Call it first. Only one of several processes should print answers.
void listen_for_stop_signals(StopAnswers answers);
/// Call it when the first step begins: from now on there is something to save.
void save_when_stopped();
bool stop_requested();

}  // namespace reprise::app
