// Plan files: what is written is read, and what is not such a file is refused with a reason.
#include "support/bitwise.h"
#include "support/temporary_folder.h"

#include <reprise/io/file.h>
#include "train/budget/plan_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace reprise::testing {
namespace {

PlanFile sample_plan() {
  const std::vector<OpDecision> ops = {
      {.name = "aten::mm", .call_index = 1},
      {.name = "aten::add", .overload = "Tensor", .decision = Decision::Offload},
      {.name = "aten::gelu", .decision = Decision::Compress},
      {.name = "aten::tanh", .call_index = 3, .decision = Decision::Recompute}};
  return {.fingerprint = "llama/2/float32",
          .model = {{"family", "llama"}, {"layers", 5}},
          .device = "cuda",
          .budget_bytes = 6'000'000'000,
          .entries = {
              {.key = {{"rows", 8}, {"length", 2048}},
               .peak_bytes = 5'900'000'000,
               .extra_ms = 12.25,
               .decisions = {{.name = "layers.0", .ops = ops},
                             {.name = "layers.1", .ops = ops},
                             {.name = "layers.2", .is_plain = true},
                             {.name = "layers.3", .is_plain = true},
                             {.name = "layers.4",
                              .offload_inputs = true,
                              .signature =
                                  RegionSignature{
                                      .inputs = {{c10::kFloat, {8, 2048}}, {c10::kLong, {}}, {}},
                                      .saved = {{c10::kBFloat16, {8, 0, 3}}},
                                      .saves = 2,
                                      .ops = 17}}}},
              {.key = {{"rows", 1}}, .peak_bytes = 1, .extra_ms = 0, .decisions = {{.name = ""}}}}};
}

struct PlanFiles : ::testing::Test {
  Json sample() {
    write_plan(path, sample_plan());
    return read_json(path);
  }
  /// Without waiting for the disk, as write_file does.
  void put(const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

  std::string refusal(const Json& json) {
    put(json.dump());
    return message_of<c10::Error>([&] { read_plan(path); });
  }
  std::string refusal(const std::function<void(Json&)>& change) {
    Json json = sample();
    change(json);
    return refusal(json);
  }

  TemporaryFolder folder;
  std::filesystem::path path = folder / "plan.json";
};

TEST_F(PlanFiles, AreReadAsTheyWereWritten) {
  const Json json = sample();
  EXPECT_TRUE(read_plan(path) == sample_plan());
  const Json& regions = json.at("entries").at(0).at("regions");
  ASSERT_EQ(regions.size(), 3U) << "neighbours that decide the same are written once";
  EXPECT_EQ(regions.at(0).at("names"), Json({"layers.0", "layers.1"}));
  EXPECT_EQ(regions.at(1), Json({{"names", {"layers.2", "layers.3"}}, {"plain", true}}));
}

TEST_F(PlanFiles, OfOtherKindsAndVersionsAreRefused) {
  const auto expect = [&](const std::function<void(Json&)>& change, const std::string& text) {
    const std::string message = refusal(change);
    EXPECT_TRUE(contains(message, text)) << message;
    EXPECT_TRUE(contains(message, "[plan file] file " + path.string())) << message;
  };
  expect([](Json& json) { json = Json::array(); }, "expected an object, found an array");
  expect([](Json& json) { json["format"] = "x"; },
         "field format: expected \"reprise-memory-plan\"");
  expect([](Json& json) { json["version"] = 2; }, "field version: expected 1");
  expect([](Json& json) { json["version"] = "1"; }, "field version: expected an integer");
  expect([](Json& json) { json.erase("entries"); }, "field entries: expected a value");
  expect([](Json& json) { json["more"] = 1; }, "field more: expected no such field");
}

TEST_F(PlanFiles, WithWrongValuesAreRefusedByField) {
  const auto expect = [&](const std::function<void(Json&)>& change, const std::string& text) {
    const std::string message = refusal([&](Json& json) { change(json["entries"][0]); });
    EXPECT_TRUE(contains(message, text)) << message;
  };
  const std::string ops = "entries[0].regions[0].ops[0].";
  expect([](Json& entry) { entry["key"] = 3; }, "field entries[0].key: expected an object");
  expect([](Json& entry) { entry["peak_bytes"] = -1; }, "entries[0].peak_bytes: expected");
  expect([](Json& entry) { entry["peak_bytes"] = UINT64_MAX; }, "entries[0].peak_bytes: expected");
  expect([](Json& entry) { entry["extra_ms"] = -1; }, "expected a time of 0 or more, found -1");
  expect([](Json& entry) { entry["regions"] = Json::array(); }, "regions: expected at least one");
  expect([](Json& entry) { entry["regions"][0]["names"][1] = 7; }, "expected strings, found 7");
  expect([](Json& entry) { entry["regions"][1]["plain"] = 1; }, "expected true or false");
  expect([](Json& entry) { entry["regions"][0]["plain"] = true; }, "as the region is plain");
  expect([](Json& entry) { entry["regions"][0]["lossy"] = true; }, "lossy: expected no such field");
  expect([](Json& entry) { entry["regions"][0]["ops"][0]["decision"] = "forget"; },
         ops + "decision: expected keep, recompute, offload or compress, found \"forget\"");
  expect([](Json& entry) { entry["regions"][0]["ops"][0]["call"] = 1.5; },
         ops + "call: expected an integer");
  expect([](Json& entry) { entry["regions"][0]["ops"][0]["call"] = int64_t{1} << 40; },
         ops + "call: expected an integer");
  expect([](Json& entry) { entry["regions"][2]["signature"]["inputs"][0][0] = "Complex"; },
         "signature.inputs: expected a list that begins with an element type, found \"Complex\"");
  expect([](Json& entry) { entry["regions"][2]["signature"]["saved"][0][1] = "8"; },
         "signature.saved: expected sizes");
  for (const Json& size : {Json(-1), Json(UINT64_MAX)}) {
    expect([&](Json& entry) { entry["regions"][2]["signature"]["saved"][0][1] = size; },
           "signature.saved: expected sizes");
  }
  expect([](Json& entry) { entry["regions"][2]["signature"]["saved"][0] = 8; },
         "signature.saved: expected lists of an element type and sizes");
  // Within bounds each, but not together.
  expect([](Json& entry) { entry["regions"][0]["ops"][0]["call"] = int64_t{1} << 21; },
         "expected fewer operator calls");
  expect(
      [](Json& entry) {
        entry["regions"][0]["ops"][0]["name"] = std::string(1 << 20, 'x');
        entry["regions"][0]["names"] = std::vector<std::string>(300, "r");
      },
      "expected fewer operator calls");
}

TEST_F(PlanFiles, ThatAreCutOffAnywhereAreRefused) {
  sample();
  const std::string whole = read_file(path);
  for (size_t size = 0; size + 2 < whole.size(); size += 23) {
    put(whole.substr(0, size));
    EXPECT_THROW(read_plan(path), c10::Error) << size;
  }
}

/// Any value of the tree, by number.
Json* nth_value(Json& json, size_t& n) {
  if (n-- == 0) {
    return &json;
  }
  if (json.is_structured()) {
    for (Json& inner : json) {
      if (Json* const found = nth_value(inner, n)) {
        return found;
      }
    }
  }
  return nullptr;
}

TEST_F(PlanFiles, WithAnyValueReplacedAreReadOrRefused) {
  const Json original = sample();
  const std::vector<Json> others = {nullptr, true, -1, 1e300, "x", Json::array(), Json::object()};
  size_t refused = 0;
  for (size_t i = 0;; ++i) {
    Json json = original;
    size_t n = i;
    Json* const value = nth_value(json, n);
    if (value == nullptr) {
      EXPECT_GT(refused, i / 2) << "most values matter";
      break;
    }
    *value = others[i % others.size()];
    put(json.dump());
    try {
      read_plan(path);
    } catch (const c10::Error& error) {
      EXPECT_TRUE(contains(error.what_without_backtrace(), path.string()));
      ++refused;
    }
  }
}

TEST_F(PlanFiles, WithRandomBytesAreReadOrRefused) {
  sample();
  const std::string whole = read_file(path);
  std::mt19937 random(7);
  for (int i = 0; i < 80; ++i) {
    std::string text = whole;
    for (int change = 0; change < 3; ++change) {
      text[random() % text.size()] = static_cast<char>(random() % 256);
    }
    put(text);
    try {
      read_plan(path);
    } catch (const c10::Error& error) {
      EXPECT_TRUE(contains(error.what_without_backtrace(), path.string()));
    }
  }
}

}  // namespace
}  // namespace reprise::testing
