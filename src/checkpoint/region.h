// What a region remembers in order to be run again, whichever way its backward works.
#pragma once

#include "checkpoint/process_globals.h"
#include "checkpoint/rng_state.h"
#include "checkpoint/saved_inputs.h"
#include "checkpoint/thread_state.h"
#include "checkpoint/write_log.h"

#include <reprise/detail/region.h>
#include <reprise/options.h>

#include <memory>
#include <string>
#include <typeinfo>
#include <vector>

namespace reprise::detail {

struct Region {
  /// Takes the calling thread's state as forward's.
  Region(const CheckpointOptions& region_options,
         std::unique_ptr<RegionBody> region_body,
         const std::vector<at::Tensor>& region_inputs);

  /// Forward has run. Throws if it changed an input in such a way that it cannot be run again.
  void complete_forward(bool will_run_again);

  /// Throws if an option has no effect here.
  void check_options() const;
  /// Throws if process-wide settings changed since forward.
  void check_globals() const;
  /// Throws if an input was changed in place since forward. Call it with the writes of forward
  /// undone.
  void check_inputs() const;

  /// The region can never be run again. Lets go of the callable, because what it captures may hold
  /// the graph that holds us.
  void abandon() { body.reset(); }
  void check_not_abandoned() const;

  /// Throws if the region is being recorded as a CUDA graph with options that need the host.
  void check_recordable() const;

  /// How messages call the region.
  std::string label() const;

  const CheckpointOptions options;
  std::unique_ptr<RegionBody> body;
  const std::type_info& callable;
  SavedInputs inputs;
  const ThreadState thread_state;
  const ProcessGlobals globals;
  RngStatePtr rng;  // null if it need not be restored
  WriteLog write_log;
};

/// The region did something that cannot be done again.
class UnrepeatableError final : public CheckpointError {
 public:
  using CheckpointError::CheckpointError;
};

/// Rethrows the exception in flight so that it names the region and is one that the autograd engine
/// can carry: on its threads, anything but a std::exception would end the process.
[[noreturn]] void rethrow_naming(const Region& region);

}  // namespace reprise::detail
