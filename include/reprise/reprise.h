// Includes all public headers of Reprise::checkpoint: every header directly in reprise/ but
// train.h.
#pragma once

#include <reprise/autocast.h>
#include <reprise/checkpoint.h>
#include <reprise/device_profile.h>
#include <reprise/ivalue_fields.h>
#include <reprise/live_tensors.h>
#include <reprise/memory.h>
#include <reprise/modules.h>
#include <reprise/named_range.h>
#include <reprise/offload.h>
#include <reprise/options.h>
#include <reprise/plan.h>
#include <reprise/plan_report.h>
#include <reprise/policy.h>
#include <reprise/region_decision.h>
#include <reprise/stats.h>
#include <reprise/tensor_fields.h>
#include <reprise/torch_fields.h>
