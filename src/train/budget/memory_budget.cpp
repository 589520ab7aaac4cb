// Parses budgets, and converts between budgets and predictions.
#include <reprise/train/memory_budget.h>

#include "memory/allocator_rounding.h"

#include <reprise/report/units.h>

#include <c10/util/Exception.h>

#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

namespace reprise {

namespace {

constexpr std::array<std::pair<std::string_view, double>, 9> kUnits = {{
    {"B", 1.0},
    {"KB", 1e3},
    {"MB", 1e6},
    {"GB", 1e9},
    {"TB", 1e12},
    {"KiB", 1024.0},
    {"MiB", 1024.0 * 1024},
    {"GiB", 1024.0 * 1024 * 1024},
    {"TiB", 1024.0 * 1024 * 1024 * 1024},
}};

// More than any machine has, and doubles are exact up to here.
constexpr double kMostBytes = 1024.0 * 1024 * 1024 * 1024 * 1024;

struct Amount {
  double number = 0;
  std::string_view unit;
};

std::optional<Amount> amount_in(std::string_view text) {
  Amount amount;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), amount.number);
  if (error != std::errc() || !std::isfinite(amount.number)) {
    return std::nullopt;
  }
  amount.unit = text.substr(static_cast<size_t>(end - text.data()));
  while (amount.unit.starts_with(' ')) {
    amount.unit.remove_prefix(1);
  }
  return amount;
}

int64_t bytes_of(const std::string& name, const std::string& text, const Amount& amount) {
  for (const auto& [unit, size] : kUnits) {
    if (amount.unit == unit) {
      const double bytes = amount.number * size;
      TORCH_CHECK(
          bytes >= 1 && bytes <= kMostBytes, name, " ", text, ": expected from 1B to 1024TiB");
      return static_cast<int64_t>(bytes);
    }
  }
  TORCH_CHECK(false,
              name,
              " ",
              text,
              ": \"",
              amount.unit,
              "\" is no unit; known are B, KB, MB, GB, TB and KiB, MiB, GiB, TiB");
}

}  // namespace

int64_t planned_bytes(int64_t bytes, c10::DeviceType device) {
  return memory::planned_bytes(bytes, device);
}

int64_t budget_for(int64_t bytes, c10::DeviceType device) {
  return memory::budget_for(bytes, device);
}

std::string Budget::describe() const {
  switch (kind) {
    case Kind::Bytes:
      return human_bytes(static_cast<double>(bytes));
    case Kind::Fraction:
      return human_number(fraction * 100) + " % of what it takes without checkpointing";
    case Kind::Min:
      return "the least possible";
    case Kind::Max:
      return "what it takes without checkpointing";
    case Kind::Auto:
      return "what the device has left";
  }
  return {};
}

Budget parse_budget(const std::string& name, const std::string& text) {
  constexpr std::array<std::pair<std::string_view, Budget::Kind>, 3> kWords = {
      {{"min", Budget::Kind::Min}, {"max", Budget::Kind::Max}, {"auto", Budget::Kind::Auto}}};
  for (const auto& [word, kind] : kWords) {
    if (text == word) {
      return {.kind = kind};
    }
  }
  const auto amount = amount_in(text);
  TORCH_CHECK(amount.has_value(),
              name,
              " ",
              text,
              ": expected bytes with a unit (6GiB, 500MB), a fraction of what the step takes "
              "without checkpointing (0.5), min, max or auto");
  if (amount->unit.empty()) {
    TORCH_CHECK(amount->number > 0 && amount->number <= 1,
                name,
                " ",
                text,
                ": a bare number is a fraction, above 0 and up to 1; bytes have a unit, as in ",
                amount->number > 1 ? text : "6",
                "GiB");
    return {.kind = Budget::Kind::Fraction, .fraction = amount->number};
  }
  return {.kind = Budget::Kind::Bytes, .bytes = bytes_of(name, text, *amount)};
}

int64_t parse_bytes(const std::string& name, const std::string& text) {
  const auto amount = amount_in(text);
  TORCH_CHECK(amount.has_value() && !amount->unit.empty(),
              name,
              " ",
              text,
              ": expected bytes with a unit (64GiB, 500MB)");
  return bytes_of(name, text, *amount);
}

}  // namespace reprise
