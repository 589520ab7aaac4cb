// Reads and writes plan files. A new field of RegionDecision or OpDecision must be added both to
// write_decision and read_decision, or to write_op and read_op.
#include "train/budget/plan_file.h"

#include "text/tokenizer/json_fields.h"

#include <c10/util/Exception.h>

#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

namespace reprise {
namespace {

using text::JsonFields;

constexpr const char* kFormat = "reprise-memory-plan";
constexpr int64_t kVersion = 1;
constexpr const char* kActivations = "activations";  // what a budget covers
constexpr const char* kEverything = "everything";
constexpr int64_t kAnyInteger = std::numeric_limits<int64_t>::max();
constexpr JsonLimits kLimits{.max_bytes = size_t{64} << 20, .max_depth = 20};
// A policy stores a byte for each call up to the last one that it decides about, so a short file
// could demand much memory. This limits the calls over all regions of a file, with the sizes in
// their signatures.
constexpr int64_t kMostCalls = int64_t{1} << 21;
// The names of a decision's operators are copied for each of its regions.
constexpr size_t kMostTextBytes = size_t{256} << 20;

constexpr std::array<const char*, 4> kDecisions = {"keep", "recompute", "offload", "compress"};

Json write_op(const OpDecision& op) {
  Json json = {{"name", op.name}};
  if (!op.overload.empty()) {
    json["overload"] = op.overload;
  }
  json["call"] = op.call_index;
  json["decision"] = kDecisions.at(static_cast<size_t>(op.decision));
  return json;
}

OpDecision read_op(const JsonFields& fields) {
  fields.allow_only({"name", "overload", "call", "decision"});
  OpDecision op{.name = fields.string("name"),
                .overload = fields.optional_string("overload").value_or(""),
                .call_index = static_cast<size_t>(fields.integer("call", 0, kMostCalls))};
  const std::string decision = fields.string("decision");
  for (size_t i = 0; i < kDecisions.size(); ++i) {
    if (decision == kDecisions[i]) {
      op.decision = static_cast<Decision>(i);
      return op;
    }
  }
  fields.refuse("decision", "keep, recompute, offload or compress", text::describe(decision));
}

/// ["Float", 8, 16]
Json write_shapes(const std::vector<TensorShape>& shapes) {
  Json json = Json::array();
  for (const TensorShape& shape : shapes) {
    Json one = Json::array({c10::toString(shape.dtype)});
    for (const int64_t size : shape.sizes) {
      one.push_back(size);
    }
    json.push_back(std::move(one));
  }
  return json;
}

c10::ScalarType read_dtype(const JsonFields& fields, std::string_view key, const Json& name) {
  for (int8_t i = 0; i <= static_cast<int8_t>(c10::ScalarType::Undefined); ++i) {
    const auto dtype = static_cast<c10::ScalarType>(i);
    if (name.is_string() && name.get<std::string>() == c10::toString(dtype)) {
      return dtype;
    }
  }
  fields.refuse(key, "a list that begins with an element type", text::describe(name));
}

std::vector<TensorShape> read_shapes(const JsonFields& fields, std::string_view key) {
  std::vector<TensorShape> shapes;
  for (const Json& one : fields.array(key)) {
    if (!one.is_array() || one.empty()) {
      fields.refuse(key, "lists of an element type and sizes", text::describe(one));
    }
    TensorShape shape{.dtype = read_dtype(fields, key, one.front())};
    for (size_t i = 1; i < one.size(); ++i) {
      if (!one[i].is_number_integer() || one[i].get<int64_t>() < 0) {
        fields.refuse(key, "sizes", text::describe(one[i]));
      }
      shape.sizes.push_back(one[i].get<int64_t>());
    }
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

Json write_signature(const RegionSignature& signature) {
  return {{"inputs", write_shapes(signature.inputs)},
          {"saved", write_shapes(signature.saved)},
          {"saves", signature.saves},
          {"ops", signature.ops}};
}

RegionSignature read_signature(const JsonFields& fields) {
  fields.allow_only({"inputs", "saved", "saves", "ops"});
  return {.inputs = read_shapes(fields, "inputs"),
          .saved = read_shapes(fields, "saved"),
          .saves = static_cast<size_t>(fields.integer("saves", 0, kAnyInteger)),
          .ops = static_cast<size_t>(fields.integer("ops", 0, kAnyInteger))};
}

/// All but the name.
Json write_decision(const RegionDecision& decision) {
  Json json = Json::object();
  if (decision.is_plain) {
    json["plain"] = true;
  }
  if (decision.offload_inputs) {
    json["offload_inputs"] = true;
  }
  if (decision.allow_lossy) {
    json["allow_lossy"] = true;
  }
  if (decision.joined > 0) {
    json["joined"] = decision.joined;
  }
  for (const OpDecision& op : decision.ops) {
    json["ops"].push_back(write_op(op));
  }
  if (decision.signature) {
    json["signature"] = write_signature(*decision.signature);
  }
  return json;
}

RegionDecision read_decision(const JsonFields& fields) {
  fields.allow_only(
      {"names", "plain", "offload_inputs", "allow_lossy", "joined", "ops", "signature"});
  RegionDecision decision;
  decision.is_plain = fields.boolean("plain", false);
  decision.offload_inputs = fields.boolean("offload_inputs", false);
  decision.allow_lossy = fields.boolean("allow_lossy", false);
  if (fields.has("joined")) {
    constexpr int64_t kMostJoined = 1 << 16;
    decision.joined = static_cast<size_t>(fields.integer("joined", 1, kMostJoined));
  }
  if (fields.has("ops")) {
    for (const JsonFields& op : fields.objects("ops")) {
      decision.ops.push_back(read_op(op));
    }
  }
  if (fields.has("signature")) {
    decision.signature = read_signature(fields.object("signature"));
  }
  if (decision.is_plain && !decision.ops.empty()) {
    fields.refuse("ops", "nothing, as the region is plain", "decisions");
  }
  return decision;
}

Json write_regions(const std::vector<RegionDecision>& decisions) {
  Json regions = Json::array();
  Json last;  // without names
  for (const RegionDecision& decision : decisions) {
    Json json = write_decision(decision);
    if (regions.empty() || json != last) {
      last = json;
      Json named = {{"names", Json::array()}};
      named.update(json);
      regions.push_back(std::move(named));
    }
    regions.back()["names"].push_back(decision.name);
  }
  return regions;
}

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : source_(path.string()) {}

  PlanFile read(const Json& json) {
    const JsonFields fields(json, source_, "", "plan file");
    const std::string format = fields.string("format");
    if (format != kFormat) {
      fields.refuse("format", std::string("\"") + kFormat + "\"", text::describe(format));
    }
    // First, because another version may have other fields.
    if (const int64_t version = fields.integer("version", 0, kAnyInteger); version != kVersion) {
      fields.refuse("version", "1, the only one known here", std::to_string(version));
    }
    fields.allow_only({"format",
                       "version",
                       "fingerprint",
                       "model",
                       "device",
                       "budget_bytes",
                       "budget_of",
                       "host_bytes",
                       "allow_lossy",
                       "entries"});
    const std::string budget_of = fields.string("budget_of");
    if (budget_of != kActivations && budget_of != kEverything) {
      fields.refuse("budget_of", "activations or everything", text::describe(budget_of));
    }
    PlanFile plan{.fingerprint = fields.string("fingerprint"),
                  .model = object_at(fields, "model"),
                  .device = fields.string("device"),
                  .budget_bytes = fields.integer("budget_bytes", 0, kAnyInteger),
                  .is_total = budget_of == kEverything,
                  .host_bytes = fields.integer("host_bytes", 0, kAnyInteger),
                  .allow_lossy = fields.boolean("allow_lossy"),
                  .entries = {}};
    for (const JsonFields& entry : fields.objects("entries")) {
      plan.entries.push_back(read_entry(entry));
    }
    return plan;
  }

 private:
  static const Json& object_at(const JsonFields& fields, std::string_view key) {
    fields.object(key);  // throws unless it is one
    return fields.value(key);
  }

  PlanEntry read_entry(const JsonFields& fields) {
    fields.allow_only({"key", "peak_bytes", "extra_ms", "regions"});
    PlanEntry entry{.key = object_at(fields, "key"),
                    .peak_bytes = fields.integer("peak_bytes", 0, kAnyInteger),
                    .extra_ms = fields.number("extra_ms"),
                    .decisions = {}};
    if (!(entry.extra_ms >= 0 && std::isfinite(entry.extra_ms))) {
      fields.refuse("extra_ms", "a time of 0 or more", text::describe(fields.value("extra_ms")));
    }
    for (const JsonFields& regions : fields.objects("regions")) {
      read_regions(regions, entry.decisions);
    }
    if (entry.decisions.empty()) {
      fields.refuse("regions", "at least one", "none");
    }
    return entry;
  }

  void read_regions(const JsonFields& fields, std::vector<RegionDecision>& decisions) {
    RegionDecision decision = read_decision(fields);
    int64_t calls = 1;
    size_t text_bytes = 0;
    for (const OpDecision& op : decision.ops) {
      text_bytes += op.name.size() + op.overload.size();
      calls += static_cast<int64_t>(op.call_index) + 1;
    }
    if (decision.signature) {  // copied for every name, too
      for (const auto* shapes : {&decision.signature->inputs, &decision.signature->saved}) {
        for (const TensorShape& shape : *shapes) {
          calls += static_cast<int64_t>(shape.sizes.size()) + 1;
        }
      }
    }
    const Json& names = fields.array("names");
    if (names.empty()) {
      fields.refuse("names", "at least one name", "none");
    }
    for (const Json& name : names) {
      if (!name.is_string()) {
        fields.refuse("names", "strings", text::describe(name));
      }
      calls_ += calls;
      text_bytes_ += text_bytes;
      if (calls_ > kMostCalls || text_bytes_ > kMostTextBytes) {
        fields.refuse("ops", "fewer operator calls than any model has", "more");
      }
      decision.name = name.get<std::string>();
      decisions.push_back(decision);
    }
  }

  std::string source_;
  int64_t calls_ = 0;
  size_t text_bytes_ = 0;
};

}  // namespace

void write_plan(const std::filesystem::path& path, const PlanFile& plan) {
  Json entries = Json::array();
  for (const PlanEntry& entry : plan.entries) {
    entries.push_back({{"key", entry.key},
                       {"peak_bytes", entry.peak_bytes},
                       {"extra_ms", entry.extra_ms},
                       {"regions", write_regions(entry.decisions)}});
  }
  write_json(path,
             {{"format", kFormat},
              {"version", kVersion},
              {"fingerprint", plan.fingerprint},
              {"model", plan.model},
              {"device", plan.device},
              {"budget_bytes", plan.budget_bytes},
              {"budget_of", plan.is_total ? kEverything : kActivations},
              {"host_bytes", plan.host_bytes},
              {"allow_lossy", plan.allow_lossy},
              {"entries", std::move(entries)}});
}

PlanFile read_plan(const std::filesystem::path& path) {
  return Reader(path).read(read_json(path, kLimits));
}

}  // namespace reprise
