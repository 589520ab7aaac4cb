#include "model/module_tree.h"

#include <utility>

namespace reprise {

namespace {

// An inner module of a path: it has children and computes nothing.
class Folder : public torch::nn::Module {};

}  // namespace

void adopt_module(torch::nn::Module& root,
                  const std::string& path,
                  std::shared_ptr<torch::nn::Module> module) {
  const size_t dot = path.find('.');
  if (dot == std::string::npos) {
    root.register_module(path, std::move(module));
    return;
  }
  const std::string head = path.substr(0, dot);
  std::shared_ptr<torch::nn::Module> folder;
  for (const auto& child : root.named_children()) {
    if (child.key() == head) {
      folder = child.value();
    }
  }
  if (folder == nullptr) {
    folder = root.register_module(head, std::make_shared<Folder>());
  }
  adopt_module(*folder, path.substr(dot + 1), std::move(module));
}

}  // namespace reprise
