#include "plan/trace/meta_trace.h"

#include "memory/meta_counter.h"
#include "plan/measure/op_timer.h"
#include "plan/trace/step_tracer.h"

namespace reprise::planning {

MetaScope::MetaScope(const DeviceProfile& device)
    : planned_({.type = device.type, .generation = device.generation}) {
  memory::MetaCounter::install();
}

PredictedStep predict_step(const std::function<void()>& step, const DeviceProfile& device) {
  OpTimer timer(device);
  PredictedStep predicted;
  predicted.trace = std::make_shared<StepTracer>(c10::Device(c10::kMeta), &timer)->run(step);
  predicted.plain_ms = timer.ms();
  for (const TracedRegion& region : predicted.trace.regions) {
    predicted.plain_ms -= region.recompute_ms;
  }
  return predicted;
}

}  // namespace reprise::planning
