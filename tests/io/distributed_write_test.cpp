// Files that several processes write: byte by byte those of one process, or none at all.
#include "support/temporary_folder.h"
#include "support/tensor_parts.h"
#include "support/tensors.h"
#include "support/thread_world.h"

#include <reprise/io/file.h>
#include "io/safetensors/distributed_write.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace reprise::testing {
namespace {

/// Some with fewer elements than a world has processes, one with none.
NamedTensors tensors() {
  torch::manual_seed(1);
  return {{"b", torch::randn({7, 3})},
          {"one", torch::randn({})},
          {"none", torch::empty({0, 4})},
          {"a", torch::randn({5}).to(at::kBFloat16)},
          {"count", torch::arange(2)}};
}

std::vector<TensorInfo> infos_of(const NamedTensors& named) {
  std::vector<TensorInfo> infos;
  for (const auto& [name, tensor] : named) {
    infos.push_back({name, tensor.scalar_type(), tensor.sizes().vec(), 0, 0});
  }
  return infos;
}

void expect_same_files(const TemporaryFolder& a, const TemporaryFolder& b) {
  ASSERT_EQ(a.names(), b.names());
  for (const std::string& name : a.names()) {
    EXPECT_TRUE(read_file(a / name) == read_file(b / name)) << name;
  }
}

TEST(WriteTogether, CheckpointsAreThoseOfOneProcess) {
  for (const uint64_t max_shard_bytes : {uint64_t{1} << 30, uint64_t{64}}) {
    const TemporaryFolder expected;
    write_checkpoint(expected.path(), tensors(), max_shard_bytes);
    for (int64_t size = 1; size <= 4; ++size) {
      const TemporaryFolder found;
      const NamedTensors all = tensors();
      run_in_world(size, [&](const World& world) {
        io::write_checkpoint_distributed(
            world, found.path(), infos_of(all), parts_here(all, world), max_shard_bytes);
      });
      expect_same_files(found, expected);
    }
  }
}

TEST(WriteTogether, FilesAreThoseOfOneProcess) {
  const TemporaryFolder expected;
  write_safetensors(expected / "state", tensors(), {{"step", "3"}});
  for (int64_t size = 1; size <= 4; ++size) {
    const TemporaryFolder found;
    const NamedTensors all = tensors();
    run_in_world(size, [&](const World& world) {
      auto parts = parts_here(all, world);
      std::erase_if(parts, [&](const TensorPart& part) {  // not even the name of what others have
        return part.values.numel() == 0 && part.name != "none";
      });
      io::write_safetensors_distributed(world, found / "state", parts, {{"step", "3"}});
    });
    expect_same_files(found, expected);
  }
}

TEST(WriteTogether, ConvertsAsOneProcessDoes) {
  const TemporaryFolder expected, found;
  const NamedTensors wide = {{"w", torch::randn({33, 5})}, {"v", torch::randn({2})}};
  NamedTensors narrow = wide;
  for (auto& [name, tensor] : narrow) {
    tensor = tensor.to(at::kBFloat16);
  }
  write_checkpoint(expected.path(), narrow);
  run_in_world(3, [&](const World& world) {
    io::write_checkpoint_distributed(
        world, found.path(), infos_of(narrow), parts_here(wide, world));
  });
  expect_same_files(found, expected);
}

TEST(WriteTogether, LargePartsGoInSlices) {
  const TemporaryFolder expected, found;
  const NamedTensors all = {{"w", torch::randn({2, 2200001})}};  // a part is more than 8 MiB
  write_safetensors(expected / "state", all);
  run_in_world(2, [&](const World& world) {
    io::write_safetensors_distributed(world, found / "state", parts_here(all, world));
  });
  expect_same_files(found, expected);
}

TEST(WriteTogether, WhatAllHaveTheFirstWrites) {
  const TemporaryFolder expected, found;
  const NamedTensors all = {{"w", torch::randn({4, 2})}};
  write_safetensors(expected / "state", all);
  run_in_world(2, [&](const World& world) {
    io::write_safetensors_distributed(world, found / "state", {{"w", {4, 2}, 0, all[0].second}});
  });
  expect_same_files(found, expected);
}

/// Every process must throw `message`; what stood in the folder before stays, and nothing else.
void expect_refused(const std::string& message,
                    const std::function<void(const World&, std::vector<TensorPart>&)>& spoil) {
  const TemporaryFolder folder;
  write_safetensors(folder / "state", {{"old", torch::zeros(1)}});
  const NamedTensors all = {{"w", torch::randn({4, 3})}, {"v", torch::randn({6})}};
  std::atomic<int> thrown = 0;
  run_in_world(3, [&](const World& world) {
    auto parts = parts_here(all, world);
    spoil(world, parts);
    const auto error =
        error_of([&] { io::write_safetensors_distributed(world, folder / "state", parts); });
    thrown += error.find(message) != std::string::npos ? 1 : 0;
    EXPECT_NE(error.find(message), std::string::npos) << world.rank() << ": " << error;
  });
  EXPECT_EQ(thrown, 3);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"state"});
  EXPECT_NE(TensorFile(folder / "state").find("old"), nullptr);
}

TEST(WriteTogether, AnErrorInOneProcessIsOneInAllAndLeavesNothing) {
  // The values of a meta tensor cannot be written; by then the file is there and others write.
  expect_refused("meta", [](const World& world, std::vector<TensorPart>& parts) {
    if (world.rank() == 2) {
      parts[1].values = parts[1].values.to(at::kMeta);
    }
  });
}

TEST(WriteTogether, RefusesPartsThatAreNotTheWhole) {
  expect_refused("tensor \"w\": expected 12 elements in the processes' parts of it, found 8",
                 [](const World& world, std::vector<TensorPart>& parts) {
                   if (world.rank() == 2) {
                     parts[0].values = parts[0].values.narrow(0, 0, 0);
                   }
                 });
  expect_refused("tensor \"w\": the processes' parts of it leave a gap at element 4",
                 [](const World& world, std::vector<TensorPart>& parts) {
                   if (world.rank() == 1) {
                     parts[0].values = parts[0].values.narrow(0, 0, 0);
                   }
                 });
  expect_refused("tensor \"v\": the processes' parts of it overlap at element 1",
                 [](const World& world, std::vector<TensorPart>& parts) {
                   parts[1].begin -= world.rank() == 1 ? 1 : 0;
                 });
}

/// One process hears another folder's name.
class Misled final : public World {
 public:
  explicit Misled(const World& real) : real_(real) {}
  int64_t rank() const override { return real_.rank(); }
  int64_t size() const override { return real_.size(); }
  int64_t local_rank() const override { return real_.local_rank(); }
  PendingCollective start_all_reduce(const at::Tensor& value,
                                     const std::string& what) const override {
    return real_.start_all_reduce(value, what);
  }
  PendingCollective start_all_gather(const at::Tensor& whole,
                                     const at::Tensor& part,
                                     const std::string& what) const override {
    return real_.start_all_gather(whole, part, what);
  }
  PendingCollective start_reduce_scatter(const at::Tensor& part,
                                         const at::Tensor& whole,
                                         const std::string& what) const override {
    return real_.start_reduce_scatter(part, whole, what);
  }
  std::vector<std::string> all_gather(const std::string& own,
                                      const std::string& what) const override {
    auto all = real_.all_gather(own, what);
    if (rank() == 1 && what.starts_with("the name of")) {
      all.front() = "/nowhere" + all.front();
    }
    return all;
  }

 private:
  const World& real_;
};

TEST(WriteTogether, RefusesAFolderThatOneProcessDoesNotSee) {
  const TemporaryFolder folder;
  const NamedTensors all = {{"w", torch::randn({4, 3})}};
  run_in_world(2, [&](const World& real) {
    const Misled world(real);
    expect_error(
        [&] { io::write_safetensors_distributed(world, folder / "state", parts_here(all, world)); },
        "rank 1 does not see /nowhere");
  });
  EXPECT_TRUE(folder.names().empty());
}

}  // namespace
}  // namespace reprise::testing
