#include <reprise/model/parameter_keeper.h>

#include <reprise/model/model.h>

namespace reprise {

ParameterKeeper::~ParameterKeeper() = default;

HeldParameters::HeldParameters(const Model& model) : keeper_(model.keeper()) {
  if (keeper_ != nullptr) {
    keeper_->hold();
  }
}

HeldParameters::~HeldParameters() {
  if (keeper_ != nullptr) {
    keeper_->release();
  }
}

}  // namespace reprise
