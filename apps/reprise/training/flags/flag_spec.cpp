// The builder methods that flags are declared with.
#include "reprise/training/flags/flag_spec.h"

#include <algorithm>
#include <utility>

namespace reprise::app {

FlagSpec& FlagSpec::aliases(std::vector<std::string> names) {
  other_names = std::move(names);
  return *this;
}

FlagSpec& FlagSpec::shorthand(std::string alias) {
  other_names.push_back(alias);
  short_name = std::move(alias);
  return *this;
}

FlagSpec& FlagSpec::one_of(std::vector<std::string> names) {
  choices = std::move(names);
  return *this;
}

FlagSpec& FlagSpec::at_least(double value) {
  least = value;
  return *this;
}

FlagSpec& FlagSpec::above(double value) {
  least = value;
  excludes_least = true;
  return *this;
}

FlagSpec& FlagSpec::at_most(double value) {
  most = value;
  return *this;
}

FlagSpec& FlagSpec::between(double smallest, double largest) {
  least = smallest;
  most = largest;
  return *this;
}

FlagSpec& FlagSpec::if_unset(std::string text) {
  unset = std::move(text);
  return *this;
}

FlagSpec& FlagSpec::many() {
  most_words = kManyWords;
  return *this;
}

FlagSpec& FlagSpec::many_with_commas() {
  splits_at_commas = true;
  return many();
}

FlagSpec& FlagSpec::joined() {
  joins_words = true;
  return many();
}

FlagSpec& FlagSpec::required() {
  is_required = true;
  return *this;
}

FlagSpec& FlagSpec::json_object() {
  is_json_object = true;
  return *this;
}

FlagSpec& FlagSpec::or_empty() {
  may_be_empty = true;
  return *this;
}

FlagSpec& FlagSpec::url() {
  is_url = true;
  return *this;
}

bool FlagSpec::is_switch() const {
  return std::holds_alternative<bool TrainingFlags::*>(member) ||
         std::holds_alternative<std::optional<bool> TrainingFlags::*>(member);
}

std::vector<std::string> FlagSpec::names() const {
  std::vector<std::string> all{name};
  all.insert(all.end(), other_names.begin(), other_names.end());
  return all;
}

bool FlagSpec::is_called(const std::string& any_name) const {
  return name == any_name ||
         std::find(other_names.begin(), other_names.end(), any_name) != other_names.end();
}

FlagSpec& FlagList::add(std::string name,
                        FlagSpec::Member member,
                        std::string unit,
                        std::string help) {
  flags_.push_back({.name = std::move(name),
                    .member = std::move(member),
                    .unit = std::move(unit),
                    .help = std::move(help),
                    .group = group_});
  return flags_.back();
}

bool is_one_of(Objective objective, std::initializer_list<Objective> objectives) {
  return std::find(objectives.begin(), objectives.end(), objective) != objectives.end();
}

bool is_online(Objective objective) {
  return is_one_of(objective, {Objective::Grpo, Objective::Ppo});
}

}  // namespace reprise::app
