#include "report/charts/other_charts.h"

#include <algorithm>
#include <string_view>

namespace reprise::report {
namespace {

constexpr std::string_view kEval = "eval_";
constexpr size_t kMostCurves = 6;

bool is_eval(const std::string& key) {
  return key.starts_with(kEval);
}

std::string trained(const std::string& key) {
  return is_eval(key) ? key.substr(kEval.size()) : key;
}

/// "logits" of "logits/chosen"; the whole key if it has no slash.
std::string family_of(const std::string& key) {
  return key.substr(0, key.rfind('/'));
}

std::string member_of(const std::string& key) {
  return key.substr(key.rfind('/') + 1);  // npos + 1 is 0
}

ChartPlan& chart_for(std::vector<ChartPlan>& plans,
                     std::vector<std::string>& families,
                     const std::string& key) {
  const std::string family = family_of(trained(key));
  for (size_t i = 0; i < plans.size(); ++i) {
    if (families[i] == family && plans[i].unit == unit_of(key) &&
        plans[i].curves.size() < kMostCurves) {
      return plans[i];
    }
  }
  families.push_back(family);
  return plans.emplace_back(ChartPlan{.title = {}, .note = "", .curves = {}, .unit = unit_of(key)});
}

/// One metric has its own name, several that of their family.
void name_curves(ChartPlan& plan) {
  const std::string first = trained(plan.curves.front().key);
  const bool is_one = std::all_of(plan.curves.begin(), plan.curves.end(), [&](const Curve& curve) {
    return trained(curve.key) == first;
  });
  plan.title = label_of(is_one ? first : family_of(first));
  for (Curve& curve : plan.curves) {
    const bool is_of_eval = is_eval(curve.key);
    curve.name = plan.curves.size() == 1 ? curve.key
                 : is_one                ? (is_of_eval ? "eval" : "train")
                                         : member_of(curve.key) + (is_of_eval ? ", eval" : "");
    curve.stroke = is_of_eval && plan.curves.size() > 1 ? Stroke::Dashed : Stroke::Solid;
    curve.has_markers = is_of_eval;
  }
}

}  // namespace

Unit unit_of(const std::string& key) {
  const auto ends = [&](std::string_view end) { return key.ends_with(end); };
  return ends("_bytes")                                               ? Unit::Bytes
         : ends("_ms")                                                ? Unit::Milliseconds
         : ends("_per_second")                                        ? Unit::TokensPerSecond
         : ends("accuracy") || ends("clipfrac") || ends("clip_ratio") ? Unit::Share
                                                                      : Unit::Number;
}

std::vector<ChartPlan> other_charts(const std::vector<std::string>& keys,
                                    const std::set<std::string>& charted) {
  std::vector<ChartPlan> plans;
  std::vector<std::string> families;
  for (const std::string& key : keys) {
    if (!charted.contains(key)) {
      chart_for(plans, families, key).curves.push_back({key, key});
    }
  }
  for (ChartPlan& plan : plans) {
    name_curves(plan);
  }
  return plans;
}

}  // namespace reprise::report
