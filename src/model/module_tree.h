// Registers modules under dotted paths, so that a module's path is its name in checkpoints.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>

namespace reprise {

/// Registers `module` under `root` at a path such as "a.b.c"; creates missing modules in between.
void adopt_module(torch::nn::Module& root,
                  const std::string& path,
                  std::shared_ptr<torch::nn::Module> module);

/// The same; returns the module with its type.
template <class M>
std::shared_ptr<M> adopt(torch::nn::Module& root,
                         const std::string& path,
                         std::shared_ptr<M> module) {
  adopt_module(root, path, module);
  return module;
}

}  // namespace reprise
