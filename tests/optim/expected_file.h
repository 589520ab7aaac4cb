// The expected.safetensors of one folder of tests/fixtures/optim.
#pragma once

#include "support/fixtures.h"

#include <reprise/io/json.h>
#include <reprise/io/tensor_file.h>

#include <c10/util/Exception.h>

#include <string>

namespace reprise::testing {

class ExpectedFile {
 public:
  explicit ExpectedFile(const std::string& folder)
      : file_(fixtures() / "optim" / folder / "expected.safetensors") {}

  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  at::Tensor tensor(const std::string& name) const {
    TORCH_CHECK(has(name), file_.path().string(), " has no tensor ", name);
    return file_.view(*file_.find(name));
  }
  /// A fact of the metadata.
  Json fact(const std::string& name) const { return parse_json(file_.metadata().at(name), name); }

 private:
  TensorFile file_;
};

}  // namespace reprise::testing
