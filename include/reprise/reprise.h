// Includes all public headers of Reprise::checkpoint.
#pragma once

#include <reprise/checkpoint.h>
#include <reprise/memory.h>
#include <reprise/modules.h>
#include <reprise/offload.h>
#include <reprise/options.h>
#include <reprise/plan.h>
#include <reprise/policy.h>
#include <reprise/stats.h>
#include <reprise/tensor_fields.h>
