// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace weir {

/// An index that knows what it indexes. Two ids of different kinds do not compare or convert.
/// `kNone` marks "no such thing". Threads: a plain value.
template <class Tag>
class StrongId {
 public:
  static constexpr std::uint32_t kNoneValue = 0xffffffffU;
  constexpr StrongId() = default;
  constexpr explicit StrongId(std::uint32_t value) : value_(value) {}
  [[nodiscard]] constexpr std::uint32_t value() const { return value_; }
  [[nodiscard]] constexpr bool valid() const { return value_ != kNoneValue; }
  constexpr auto operator<=>(const StrongId&) const = default;

 private:
  std::uint32_t value_ = kNoneValue;
};

/// A node of the hierarchy: organisation, tenant, team, key or model profile.
using NodeId = StrongId<struct NodeTag>;
/// A deployment: one model at one provider under one quota.
using DeploymentId = StrongId<struct DeploymentTag>;
/// A model profile: what clients name in "model".
using ProfileId = StrongId<struct ProfileTag>;
/// A traffic class, 0 the highest.
using ClassId = StrongId<struct ClassTag>;
/// A provider entry of the configuration.
using ProviderId = StrongId<struct ProviderTag>;

/// Names one call from `submit` until its settlement. The generation makes a stale id harmless:
/// the slot it names has moved on and every operation on it answers "unknown".
struct CallId {
  std::uint32_t slot = 0xffffffffU;
  std::uint32_t generation = 0;
  [[nodiscard]] constexpr bool valid() const { return slot != 0xffffffffU; }
  constexpr auto operator<=>(const CallId&) const = default;
};

}  // namespace weir

template <class Tag>
struct std::hash<weir::StrongId<Tag>> {
  std::size_t operator()(weir::StrongId<Tag> id) const noexcept {
    return std::hash<std::uint32_t>{}(id.value());
  }
};
