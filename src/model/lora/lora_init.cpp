// The first values of adapters, as peft chooses them. What is drawn is drawn on the CPU in float32,
// so that a seed gives the same values on every device; decompositions are computed in float32 on
// the device of the weight.
#include "model/lora/lora_init.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

namespace reprise {

namespace {

constexpr std::string_view kRandomised = "pissa_niter_";
constexpr int64_t kMostIterations = 1000;

constexpr std::array kNames = std::to_array<std::pair<std::string_view, LoraInit::Kind>>(
    {{"true", LoraInit::Kind::Uniform},
     {"gaussian", LoraInit::Kind::Gaussian},
     {"orthogonal", LoraInit::Kind::Orthogonal},
     {"pissa", LoraInit::Kind::Pissa},
     {"olora", LoraInit::Kind::Olora}});

struct Decomposition {
  at::Tensor u, s, v;  // (out, rank), (rank), (rank, in)
};

at::Tensor normal(at::IntArrayRef sizes, at::Generator& generator) {
  return at::empty(sizes, at::kFloat).normal_(0, 1, generator);
}

at::Tensor orthonormal(const at::Tensor& columns) {
  return std::get<0>(at::linalg_qr(columns));
}

Decomposition exact_svd(const at::Tensor& weight, int64_t rank) {
  const auto [u, s, v] = at::linalg_svd(weight, /*full_matrices=*/false);
  return {u.narrow(1, 0, rank), s.narrow(0, 0, rank), v.narrow(0, 0, rank)};
}

// Halko, Martinsson and Tropp 2009, algorithms 4.4 and 5.1, as torch.svd_lowrank: a basis of the
// range by subspace iteration, then an exact decomposition within it.
Decomposition randomised_svd(const at::Tensor& weight,
                             int64_t rank,
                             int64_t iterations,
                             at::Generator& generator) {
  const auto test = normal({weight.size(1), rank}, generator).to(weight.device());
  auto basis = orthonormal(at::mm(weight, test));
  for (int64_t i = 0; i < iterations; ++i) {
    basis = orthonormal(at::mm(weight, orthonormal(at::mm(weight.t(), basis))));
  }
  const auto inner = exact_svd(at::mm(basis.t(), weight), rank);
  return {at::mm(basis, inner.u), inner.s, inner.v};
}

// As the weight of a torch.nn.Linear.
void begin_uniform(LoraBranch& branch, at::Generator& generator) {
  const double bound = 1 / std::sqrt(static_cast<double>(branch.a.size(1)));
  branch.a.copy_(at::empty(branch.a.sizes(), at::kFloat).uniform_(-bound, bound, generator));
  branch.b.zero_();
}

void begin_gaussian(LoraBranch& branch, at::Generator& generator) {
  branch.a.copy_(normal(branch.a.sizes(), generator) / branch.rank());
  branch.b.zero_();
}

// A and B of random numbers whose product is zero: the columns of B and the rows of A lie in
// complementary halves of an orthonormal basis.
void begin_orthogonal(LoraBranch& branch, at::Generator& generator) {
  constexpr double kSize = 0.1;
  const int64_t rank = branch.rank();
  const auto basis = orthonormal(normal({rank, rank}, generator));
  const auto odd = basis.slice(0, 0, rank, 2), even = basis.slice(0, 1, rank, 2);
  branch.a.copy_(at::mm(normal({branch.a.size(1), rank / 2}, generator), odd).t() * kSize);
  branch.b.copy_(at::mm(normal({branch.b.size(0), rank / 2}, generator), even) * kSize);
}

void begin_pissa(LoraBranch& branch,
                 const at::Tensor& weight,
                 const std::optional<int64_t>& iterations,
                 at::Generator& generator) {
  const auto [u, s, v] = iterations ? randomised_svd(weight, branch.rank(), *iterations, generator)
                                    : exact_svd(weight, branch.rank());
  const auto root = (s / branch.scale()).sqrt();
  branch.a.copy_(root.unsqueeze(1) * v);
  branch.b.copy_(u * root);
}

void begin_olora(LoraBranch& branch, const at::Tensor& weight) {
  const auto [q, r] = at::linalg_qr(weight);
  branch.a.copy_(r.narrow(0, 0, branch.rank()));
  branch.b.copy_(q.narrow(1, 0, branch.rank()));
}

}  // namespace

LoraInit LoraInit::parse(const std::string& name) {
  for (const auto& [own, kind] : kNames) {
    if (name == own) {
      return {.kind = kind};
    }
  }
  int64_t iterations = -1;
  if (name.starts_with(kRandomised)) {
    const char* end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data() + kRandomised.size(), end, iterations);
    iterations = error == std::errc() && stop == end ? iterations : -1;
  }
  TORCH_CHECK(0 <= iterations && iterations <= kMostIterations,
              "[lora] init_lora_weights: expected true, gaussian, orthogonal, pissa, pissa_niter_N "
              "or olora, found \"",
              name,
              "\"",
              name == "eva" || name == "corda" || name == "lora_ga" ? ", which needs data"
              : name == "loftq" ? ", which needs a quantised base model"
                                : "");
  return {.kind = Kind::Pissa, .iterations = iterations};
}

std::string LoraInit::name() const {
  if (iterations) {
    return std::string(kRandomised) + std::to_string(*iterations);
  }
  const auto* found = std::find_if(
      kNames.begin(), kNames.end(), [&](const auto& entry) { return entry.second == kind; });
  return std::string(found->first);
}

void check_initialization(const LoraPlan& plan, const LoraConfig& config) {
  const LoraInit& init = config.init;
  TORCH_CHECK(!config.use_dora || !init.is_decomposition(),
              "[lora] init_lora_weights: expected no decomposition with use_dora, found ",
              init.name(),
              ": what is trained then could not be saved as an adapter of the base model.");
  for (const auto& target : plan.targets) {
    const auto& shape = target.module->shape();
    const int64_t most = std::min(shape.in, shape.out);
    TORCH_CHECK(!init.is_decomposition() || target.rank <= most,
                "[lora] init_lora_weights ",
                init.name(),
                ": expected a rank of at most ",
                most,
                ", the smaller side of ",
                target.path,
                ", found ",
                target.rank);
    TORCH_CHECK(!init.is_decomposition() || target.scale > 0,
                "[lora] init_lora_weights ",
                init.name(),
                ": expected an alpha above 0 for ",
                target.path);
    TORCH_CHECK(init.kind != LoraInit::Kind::Orthogonal || target.rank % 2 == 0,
                "[lora] init_lora_weights orthogonal: expected an even rank for ",
                target.path,
                ", found ",
                target.rank);
  }
}

void initialize(const LoraTarget& target, const LoraInit& init, at::Generator& generator) {
  LoraBranch& branch = *target.module->branch();
  if (init.is_decomposition() && branch.a.is_meta()) {
    branch.subtract_start();
  }
  if (branch.a.is_meta()) {
    return;  // a plan needs no values
  }
  const auto base = target.module->matrix(AdapterUse::Off).weight.detach();
  switch (init.kind) {
    case LoraInit::Kind::Uniform:
      begin_uniform(branch, generator);
      break;
    case LoraInit::Kind::Gaussian:
      begin_gaussian(branch, generator);
      break;
    case LoraInit::Kind::Orthogonal:
      begin_orthogonal(branch, generator);
      break;
    case LoraInit::Kind::Pissa:
      begin_pissa(branch, base.to(at::kFloat), init.iterations, generator);
      break;
    case LoraInit::Kind::Olora:
      begin_olora(branch, base.to(at::kFloat));
      break;
  }
  if (init.is_decomposition()) {
    branch.subtract_start();
  }
  if (branch.is_dora()) {
    branch.magnitude.copy_(branch.row_norms(base));
  }
}

}  // namespace reprise
