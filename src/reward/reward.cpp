// Defaults: a source needs no columns and no model.
#include <reprise/reward/reward.h>

namespace reprise {

RewardSource::~RewardSource() = default;

void RewardSource::check(const Json& /*row*/) const {}

const Model* RewardSource::model() const {
  return nullptr;
}

}  // namespace reprise
