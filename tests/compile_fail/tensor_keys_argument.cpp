// Tensors as keys of a dictionary would not be found.
#include <reprise/checkpoint.h>

#include <ATen/core/Dict.h>
#include <ATen/core/Tensor.h>

#include <string>

#ifdef REPRISE_VALID
using Key = std::string;
#else
using Key = at::Tensor;
#endif

size_t counted(const c10::Dict<Key, at::Tensor>& dict) {
  return reprise::checkpoint([](const auto& d) { return d.size(); }, dict);
}
