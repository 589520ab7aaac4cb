// The speed of each kernel of a training step on this GPU: time, bytes or operations per second,
// and how that compares to a large copy or a large matrix product in the same run. Prints one JSON
// object per kernel and line; gpu_compare.py --parts kernels makes the table.
#include "gpu_kernels.h"
#include "kernel_products.h"
#include "kernel_rows.h"
#include "kernel_timer.h"

#include <reprise/io/json.h>
#include <reprise/model/amx_guard.h>
#include <reprise/ops/cuda_kernels.h>

#include <ATen/ATen.h>
#include <CLI/CLI.hpp>

#include <dlfcn.h>

#include <cstdint>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using gpu::Row;
using gpu::Sizes;
using reprise::Json;

struct Options {
  std::vector<std::string> shapes{"1b:8x2048", "8b:1x4096"};
  std::string device = "cuda:0";
  std::string only;  ///< only rows whose names contain this
  int64_t calls = 20;
  bool is_json = false;
};

Sizes sizes_of(const std::string& text, const at::TensorOptions& tensors) {
  const auto colon = text.find(':'), times = text.find('x', colon + 1);
  TORCH_CHECK(colon != std::string::npos && times != std::string::npos,
              "expected a shape like 1b:8x2048, got ",
              text);
  return {.model = gpu::shape_named(text.substr(0, colon)),
          .batch = std::stoll(text.substr(colon + 1, times - colon - 1)),
          .seq = std::stoll(text.substr(times + 1)),
          .tensors = tensors};
}

std::vector<Row> rows_of(const Sizes& sizes) {
  std::vector<Row> all;
  for (const auto make : {gpu::norm_rows,
                          gpu::gated_rows,
                          gpu::rope_rows,
                          gpu::other_rows,
                          gpu::attention_rows,
                          gpu::product_rows}) {
    for (auto& row : make(sizes)) {
      all.push_back(std::move(row));
    }
  }
  return all;
}

double microseconds(const gpu::CallTime& time) {
  return time.kernel_us.value_or(time.us);
}

/// The rates that kernels are compared with. Smaller sizes on a CPU.
Json rates_of(const at::TensorOptions& tensors, int64_t calls) {
  const auto device = tensors.device();
  const int64_t bytes = int64_t{1} << (device.is_cpu() ? 26 : 31);
  const int64_t size = device.is_cpu() ? 256 : 8192;
  gpu::Turns copies(
      [&]() -> gpu::Call {
        const auto source = at::zeros({bytes}, tensors.dtype(at::kByte));
        return [source, target = at::empty_like(source)]() {
          return std::vector{target.copy_(source)};
        };
      },
      0);
  const double copy_us = microseconds(gpu::time_of(copies, device, calls));
  gpu::Turns products(
      [&]() -> gpu::Call {
        const auto a = at::randn({size, size}, tensors), b = at::randn({size, size}, tensors);
        return [a, b]() { return std::vector{at::mm(a, b)}; };
      },
      0);
  const double product_us = microseconds(gpu::time_of(products, device, calls));
  const auto side = static_cast<double>(size);
  return {{"copy_gb_per_s", 2 * static_cast<double>(bytes) / copy_us / 1e3},
          {"matmul_tflop_per_s", 2 * side * side * side / product_us / 1e6}};
}

void print(const Options& options, const Json& line) {
  if (options.is_json) {
    std::cout << line.dump() << std::endl;  // flushed, because a run may be stopped
    return;
  }
  const auto name = line["shape"].get<std::string>() + " " + line["kernel"].get<std::string>();
  if (line.contains("error")) {
    std::cout << name << ": " << line["error"].get<std::string>() << std::endl;
    return;
  }
  const auto us = line["us"].get<double>(), bytes = line["bytes"].get<double>();
  const auto rate = bytes > 0 ? bytes / us / 1e3 : line["flops"].get<double>() / us / 1e6;
  const auto most = line[bytes > 0 ? "copy_gb_per_s" : "matmul_tflop_per_s"].get<double>();
  std::cout << name << ": " << us << " us, " << rate << (bytes > 0 ? " GB/s, " : " TFLOP/s, ")
            << 100 * rate / most << " %" << std::endl;
}

void run(const Options& options) {
  const auto device = gpu::with_index(at::Device(options.device));
  const auto tensors = at::TensorOptions().device(device).dtype(at::kBFloat16);
  const c10::NoGradGuard no_grad;
  const auto rates = rates_of(tensors, options.calls);
  for (const auto& shape : options.shapes) {
    for (const auto& row : rows_of(sizes_of(shape, tensors))) {
      if (row.name.find(options.only) == std::string::npos) {
        continue;
      }
      gpu::Turns turns(row.make, row.bytes);
      const auto time = gpu::time_of(turns, device, options.calls, row.kernel);
      Json line = {{"kernel", row.name},
                   {"shape", shape},
                   {"us", microseconds(time)},
                   {"call_us", time.us},
                   {"by_profiler", time.kernel_us.has_value()},
                   {"bytes", row.bytes},
                   {"flops", row.flops}};
      line.update(rates);
      if (!row.kernel.empty() && !time.kernel_us && !device.is_cpu()) {
        line["error"] = "the profiler saw no kernel named " + row.kernel;
      }
      print(options, line);
    }
    gpu::empty_cache(device);
  }
}

}  // namespace

int main(int argc, char** argv) {
  reprise::guard_against_faulting_amx();
  CLI::App app{"Time and bandwidth of each kernel, and how close it is to this GPU's best."};
  Options options;
  app.add_option("--shapes", options.shapes, "<1b, 8b or tiny>:<batch>x<tokens>")->delimiter(',');
  app.add_option("--only", options.only, "Only rows whose names contain this");
  app.add_option("--calls", options.calls)->check(CLI::PositiveNumber);
  app.add_option(
      "--device", options.device, "Use cpu with --shapes tiny:1x64 to try it without a GPU");
  app.add_flag("--json", options.is_json, "One JSON object per kernel");
  CLI11_PARSE(app, argc, argv);
  try {
    if (options.device != "cpu") {
      dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL);
      TORCH_CHECK(reprise::load_cuda_kernels(), reprise::missing_cuda_kernels());
      gpu::choose_kernels(/*is_deterministic=*/false);
    }
    run(options);
    return 0;
  } catch (const c10::Error& error) {
    std::cerr << "bench_kernels: " << error.what_without_backtrace() << "\n";
  } catch (const std::exception& error) {
    std::cerr << "bench_kernels: " << error.what() << "\n";
  }
  return 1;
}
