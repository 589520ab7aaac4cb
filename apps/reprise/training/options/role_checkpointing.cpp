// Checkpointing flags of a role override those of both roles.
#include "reprise/training/options/role_checkpointing.h"

#include "reprise/training/effects/flag_effects.h"
#include "reprise/training/flags/flag_spec.h"

#include <c10/util/Exception.h>

#include <array>

namespace reprise::app {

namespace {

using Flags = TrainingFlags;

/// The members of TrainingFlags with the values of a role.
struct RoleMembers {
  Role role;
  std::optional<bool> Flags::*enabled;
  std::optional<bool> Flags::*use_reentrant;
  std::string Flags::*kwargs;
  std::optional<double> Flags::*ratio;
  std::string Flags::*layers;
  std::string Flags::*policy;
};

constexpr std::array<RoleMembers, 2> kRoles = {{{Role::Actor,
                                                 &Flags::actor_checkpointing,
                                                 &Flags::actor_use_reentrant,
                                                 &Flags::actor_checkpointing_kwargs,
                                                 &Flags::actor_checkpointing_ratio,
                                                 &Flags::actor_checkpointing_layers,
                                                 &Flags::actor_checkpointing_policy},
                                                {Role::Critic,
                                                 &Flags::critic_checkpointing,
                                                 &Flags::critic_use_reentrant,
                                                 &Flags::critic_checkpointing_kwargs,
                                                 &Flags::critic_checkpointing_ratio,
                                                 &Flags::critic_checkpointing_layers,
                                                 &Flags::critic_checkpointing_policy}}};

constexpr std::array kNames = {"gradient_checkpointing",
                               "gradient_checkpointing_use_reentrant",
                               "gradient_checkpointing_kwargs",
                               "gradient_checkpointing_ratio",
                               "gradient_checkpointing_layers",
                               "gradient_checkpointing_policy"};

bool is_on(const TrainingFlags& flags, const RoleMembers& members) {
  return (flags.*members.enabled).value_or(flags.gradient_checkpointing);
}

// Settings for both roles have an effect if one of them is checkpointed. They must not be refused
// for the other.
void forget_common_settings(TrainingFlags& own, const std::string& prefix) {
  for (size_t i = 1; i < kNames.size(); ++i) {
    if (!own.given.contains(prefix + kNames[i])) {
      own.given.erase(kNames[i]);
    }
  }
}

// The flags as if this role were the only one.
TrainingFlags flags_of_role(const TrainingFlags& flags, Role role) {
  TrainingFlags own = flags;
  const std::string prefix = to_string(role) + ".";
  const bool chooses_blocks = flags.given.contains(prefix + "gradient_checkpointing_ratio") ||
                              flags.given.contains(prefix + "gradient_checkpointing_layers");
  if (chooses_blocks) {
    own.gradient_checkpointing_ratio = 0;
    own.gradient_checkpointing_layers.clear();
    own.given.erase("gradient_checkpointing_ratio");
    own.given.erase("gradient_checkpointing_layers");
  }
  const auto take = [&](const std::string& name, auto& target, const auto& value) {
    if (flags.given.contains(prefix + name)) {
      target = value;
      own.given.insert(name);
    }
  };
  const RoleMembers& members = kRoles[static_cast<size_t>(role)];
  if (!is_on(flags, members) && (is_on(flags, kRoles[0]) || is_on(flags, kRoles[1]))) {
    forget_common_settings(own, prefix);
  }
  take(kNames[0], own.gradient_checkpointing, (flags.*members.enabled).value_or(false));
  take(kNames[1],
       own.gradient_checkpointing_use_reentrant,
       (flags.*members.use_reentrant).value_or(false));
  take(kNames[2], own.gradient_checkpointing_kwargs, flags.*members.kwargs);
  take(kNames[3], own.gradient_checkpointing_ratio, (flags.*members.ratio).value_or(0));
  take(kNames[4], own.gradient_checkpointing_layers, flags.*members.layers);
  take(kNames[5], own.gradient_checkpointing_policy, flags.*members.policy);
  return own;
}

void add_role(FlagList& list, const RoleMembers& members) {
  const std::string role = to_string(members.role);
  const auto name = [&](size_t i) { return role + "." + kNames[i]; };
  const auto as_all = [&](size_t i) { return std::string("the value of --") + kNames[i]; };
  const std::string of = members.role == Role::Actor ? " of the policy" : " of the critic";
  const auto named = [&](const char* other) {
    return members.role == Role::Actor ? std::vector<std::string>{std::string("actor.") + other}
                                       : std::vector<std::string>{};
  };
  list.add(name(0), members.enabled, "BOOL", "Gradient checkpointing" + of + " only")
      .if_unset(as_all(0))
      .aliases(named("gradient_checkpointing_enable"));
  list.add(name(1), members.use_reentrant, "BOOL", "Reentrant checkpointing" + of)
      .if_unset(as_all(1))
      .aliases(named("gradient_checkpointing_reentrant"));
  list.add(name(2), members.kwargs, "JSON", "Checkpointing settings" + of + " as a JSON object")
      .json_object()
      .if_unset(as_all(2));
  list.add(name(3), members.ratio, "FRACTION", "Fraction of the blocks" + of + " to checkpoint")
      .between(0, 1)
      .if_unset(as_all(3));
  list.add(name(4), members.layers, "LIST", "Blocks" + of + " to checkpoint")
      .joined()
      .if_unset(as_all(4));
  list.add(name(5), members.policy, "NAME", "What a checkpointed block" + of + " still stores")
      .one_of({"full", "attention", "matmuls"})
      .if_unset(as_all(5));
}

}  // namespace

void add_role_checkpointing_flags(FlagList& list) {
  list.begin_group("Gradient checkpointing of one model");
  for (const RoleMembers& members : kRoles) {
    add_role(list, members);
  }
}

std::string to_string(Role role) {
  return role == Role::Actor ? "actor" : "critic";
}

CheckpointingRequest checkpointing_request(const TrainingFlags& flags, Role role) {
  if (flags.objective != Objective::Ppo) {
    return checkpointing_request(flags);
  }
  try {
    return checkpointing_request(flags_of_role(flags, role));
  } catch (const c10::Error& error) {
    TORCH_CHECK(false, "the ", to_string(role), ": ", error.what_without_backtrace());
  }
}

void check_role_checkpointing(const TrainingFlags& flags) {
  for (const char* name : kNames) {
    const bool both_differ = flags.given.contains("actor." + std::string(name)) &&
                             flags.given.contains("critic." + std::string(name));
    if (both_differ) {
      refuse(flags, {name}, "where --actor. and --critic. each have their own");
    }
  }
  for (const RoleMembers& members : kRoles) {
    checkpointing_request(flags, members.role);
  }
}

}  // namespace reprise::app
