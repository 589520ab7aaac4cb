// Modules under dotted paths, so that a module's path is its name in a checkpoint.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>

namespace reprise {

/// Registers `module` under `root` at "a.b.c", making what lies between where it is missing.
void adopt_module(torch::nn::Module& root,
                  const std::string& path,
                  std::shared_ptr<torch::nn::Module> module);

template <class M>
std::shared_ptr<M> adopt(torch::nn::Module& root,
                         const std::string& path,
                         std::shared_ptr<M> module) {
  adopt_module(root, path, module);
  return module;
}

}  // namespace reprise
