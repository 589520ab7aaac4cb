// The tensors of LibTorch's own containers are found with torch_fields.h (part of reprise.h).
#include <reprise/checkpoint.h>
#ifdef REPRISE_VALID
#include <reprise/torch_fields.h>
#endif

#include <torch/ordered_dict.h>

#include <string>

size_t counted(const torch::OrderedDict<std::string, at::Tensor>& dict) {
  return reprise::checkpoint([](const auto& d) { return d.size(); }, dict);
}
