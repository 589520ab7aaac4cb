// Worlds of real processes: every collective, type and size gives what it should, to the last bit.
#include <reprise/dist/connect.h>
#include <reprise/dist/world.h>

#include "support/processes.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace reprise {
namespace {

using testing::run_processes;

std::unique_ptr<World> join() {
  const auto rendezvous = rendezvous_from_environment();
  TORCH_CHECK(rendezvous, "not started as a worker");
  WorldOptions options;
  options.timeout = std::chrono::seconds(60);
  return connect_world(*rendezvous, options);
}

/// What a rank brings: the same in every run, and such that the order of a sum shows.
at::Tensor brought(int64_t rank, int64_t count, at::ScalarType type) {
  if (!at::isFloatingType(type)) {
    return at::arange(count).add_(rank).remainder_(23).to(type);
  }
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(77 + rank);
  const auto values = at::randn({count}, generator, at::kFloat);
  return values.pow(3).to(type);
}

/// The sum in the order of ranks; 16-bit types in float32, rounded once.
at::Tensor expected_sum(int64_t size, int64_t count, at::ScalarType type) {
  const bool is_short = type == at::kHalf || type == at::kBFloat16;
  auto sum = brought(0, count, type);
  sum = is_short ? sum.to(at::kFloat) : sum;
  for (int64_t rank = 1; rank < size; ++rank) {
    sum = sum + brought(rank, count, type).to(sum.scalar_type());
  }
  return sum.to(type);
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         (a.numel() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0);
}

void check_all(const World& world, int64_t count, at::ScalarType type) {
  const auto size = world.size(), rank = world.rank();
  const auto label = c10::str(type, " x ", count, " in ", size);
  auto value = brought(rank, count, type);
  world.start_all_reduce(value, "a sum")->wait();
  EXPECT_TRUE(same_bits(value, expected_sum(size, count, type))) << label;

  const auto own = brought(rank, count, type);
  const auto whole = at::empty({size * count}, own.options());
  world.start_all_gather(whole, own, "parts")->wait();
  const auto gathered = at::zeros({size * count}, own.options());
  gathered.narrow(0, rank * count, count).copy_(own);
  world.start_all_gather(gathered, gathered.narrow(0, rank * count, count), "in place")->wait();
  for (int64_t i = 0; i < size; ++i) {
    EXPECT_TRUE(same_bits(whole.narrow(0, i * count, count), brought(i, count, type))) << label;
  }
  EXPECT_TRUE(same_bits(gathered, whole)) << label;

  const auto all = brought(rank, size * count, type);
  const auto before = all.clone();
  const auto part = at::empty({count}, all.options());
  world.start_reduce_scatter(part, all, "a reduction")->wait();
  EXPECT_TRUE(same_bits(
      part, expected_sum(size, size * count, type).narrow(0, rank * count, count).clone()))
      << label;
  EXPECT_TRUE(same_bits(all, before)) << label;
}

TEST(Worker, DISABLED_Collectives) {
  const auto world = join();
  for (const int64_t count : {0, 1, 7, 20011, 300001}) {
    check_all(*world, count, at::kFloat);
  }
  for (const auto type : {at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kByte}) {
    check_all(*world, 3, type);
    check_all(*world, 30001, type);
  }
  EXPECT_EQ(world->sum(1.5 * static_cast<double>(world->rank() + 1)),
            1.5 * static_cast<double>(world->size() * (world->size() + 1) / 2));
  EXPECT_EQ(world->max(-2.0 - static_cast<double>(world->rank())), -2.0);
  EXPECT_EQ(world->broadcast(std::to_string(world->rank()), "a name"), "0");
  world->barrier("the end");
}

// Of more chunks than are under way at once.
TEST(Worker, DISABLED_Large) {
  const auto world = join();
  const auto size = world->size(), rank = world->rank();
  constexpr int64_t kCount = 5000003;
  const auto sum = expected_sum(size, kCount, at::kFloat);
  const auto value = brought(rank, kCount, at::kFloat);
  world->start_all_reduce(value, "a sum")->wait();
  EXPECT_TRUE(same_bits(value, sum));
  const auto part = at::empty({kCount / size});
  const auto whole = brought(rank, kCount, at::kFloat).narrow(0, 0, part.numel() * size);
  world->start_reduce_scatter(part, whole, "a reduction")->wait();
  EXPECT_TRUE(same_bits(part, sum.narrow(0, rank * part.numel(), part.numel()).clone()));
}

TEST(Worker, DISABLED_Strings) {
  const auto world = join();
  const auto said = [](int64_t rank) {
    return rank == 1 ? std::string() : std::string(rank == 0 ? 1 << 20 : 3, char('a' + rank));
  };
  const auto all = world->all_gather(said(world->rank()), "texts");
  ASSERT_EQ(all.size(), static_cast<size_t>(world->size()));
  for (int64_t rank = 0; rank < world->size(); ++rank) {
    EXPECT_EQ(all[static_cast<size_t>(rank)], said(rank));
  }
}

// Many under way, of all kinds, waited for from the last to the first.
TEST(Worker, DISABLED_Pending) {
  const auto world = join();
  const auto size = world->size(), rank = world->rank();
  constexpr int64_t kCount = 50000;
  std::vector<at::Tensor> values, wholes, parts;
  std::vector<PendingCollective> pending;
  for (int64_t i = 0; i < 8; ++i) {
    values.push_back(brought(rank, kCount + i, at::kFloat));
    pending.push_back(world->start_all_reduce(values.back(), "sum"));
    wholes.push_back(at::empty({size * (i + 1)}));
    pending.push_back(
        world->start_all_gather(wholes.back(), brought(rank, i + 1, at::kFloat), "part"));
    parts.push_back(at::empty({kCount}));
    pending.push_back(world->start_reduce_scatter(
        parts.back(), brought(rank, size * kCount, at::kFloat), "reduce"));
  }
  while (!pending.empty()) {
    pending.back()->wait();
    pending.pop_back();
  }
  for (int64_t i = 0; i < 8; ++i) {
    const auto at = static_cast<size_t>(i);
    EXPECT_TRUE(same_bits(values[at], expected_sum(size, kCount + i, at::kFloat)));
    EXPECT_TRUE(same_bits(wholes[at].narrow(0, 0, i + 1), brought(0, i + 1, at::kFloat)));
    EXPECT_TRUE(same_bits(
        parts[at],
        expected_sum(size, size * kCount, at::kFloat).narrow(0, rank * kCount, kCount).clone()));
  }
}

TEST(Worker, DISABLED_Together) {
  const auto world = join();
  const auto error = testing::error_of([&] {
    world->run_on_all("a file", [&] { TORCH_CHECK(world->rank() != 1, "the disk is full"); });
  });
  EXPECT_NE(error.find("the disk is full"), std::string::npos) << error;
  EXPECT_EQ(world->sum(1.0), static_cast<double>(world->size()));  // all are still there
}

TEST(World, CollectivesGiveTheSameToTheLastBitInEveryProcess) {
  for (int size = 1; size <= 4; ++size) {
    run_processes(size, "Collectives");
  }
}

TEST(World, SumsInChunks) {
  run_processes(3, "Large");
}

TEST(World, GathersTextsOfAnyLength) {
  run_processes(3, "Strings");
}

TEST(World, CollectivesMayBePendingAndAreWaitedForInAnyOrder) {
  run_processes(3, "Pending");
}

TEST(World, WhatFailsInOneFailsInAllAndTheWorldGoesOn) {
  run_processes(3, "Together");
}

}  // namespace
}  // namespace reprise
