// Policies that need not be kept apart from the region that they decide about.
#pragma once

#include <reprise/policy.h>

namespace reprise::detail {

/// Decides by the names and numbers of calls alone: it runs no operator and draws no random
/// numbers. Others might, so that they are called with all observers of the region set aside.
class LookingPolicy : public Policy {};

}  // namespace reprise::detail
