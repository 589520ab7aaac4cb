#include <reprise/model/sharded_parameters.h>

#include <reprise/model/model.h>

namespace reprise {

ShardedParameters::~ShardedParameters() = default;

UnshardedParameters::UnshardedParameters(const Model& model)
    : sharded_parameters_(model.sharded_parameters()) {
  if (sharded_parameters_ != nullptr) {
    sharded_parameters_->unshard();
  }
}

UnshardedParameters::~UnshardedParameters() {
  if (sharded_parameters_ != nullptr) {
    sharded_parameters_->reshard();
  }
}

}  // namespace reprise
