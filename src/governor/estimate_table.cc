// SPDX-License-Identifier: Apache-2.0
#include "governor/estimate_table.h"

#include <algorithm>

namespace weir::governor {
namespace {

constexpr std::uint32_t kEmpty = 0xffffffffU;
constexpr std::size_t kFirstPlaces = 64;
constexpr int kLooks = 64;  // entries looked at for one that is not in use

}  // namespace

EstimateTable::EstimateTable(std::size_t capacity)
    : capacity_(std::max<std::size_t>(capacity, 2)), places_(kFirstPlaces, kEmpty) {}

// The place that holds `key`, or the empty one where it would stand.
std::size_t EstimateTable::place_of(std::uint64_t key) const {
  const std::size_t mask = places_.size() - 1;
  std::size_t at = static_cast<std::size_t>(key) & mask;
  while (places_[at] != kEmpty && entries_[places_[at]].key != key) at = (at + 1) & mask;
  return at;
}

const EstimateLevel* EstimateTable::find(std::uint64_t key) const {
  const std::uint32_t entry = places_[place_of(key)];
  return entry == kEmpty ? nullptr : &entries_[entry].level;
}

void EstimateTable::insert(std::uint64_t key, std::uint32_t entry) {
  places_[place_of(key)] = entry;
}

void EstimateTable::erase(std::uint64_t key) {
  const std::size_t mask = places_.size() - 1;
  std::size_t hole = place_of(key);
  // Whoever stands behind the hole only because its own place was taken moves up.
  for (std::size_t at = (hole + 1) & mask; places_[at] != kEmpty; at = (at + 1) & mask) {
    const std::size_t home = static_cast<std::size_t>(entries_[places_[at]].key) & mask;
    if (((at - home) & mask) < ((at - hole) & mask)) continue;
    places_[hole] = places_[at];
    hole = at;
  }
  places_[hole] = kEmpty;
}

void EstimateTable::grow() {
  places_.assign(places_.size() * 2, kEmpty);
  for (std::uint32_t i = 0; i < entries_.size(); ++i) insert(entries_[i].key, i);
}

std::uint32_t EstimateTable::evict() {
  for (int looks = 0; looks < kLooks && entries_[hand_].used; ++looks) {
    entries_[hand_].used = false;
    hand_ = (hand_ + 1) % entries_.size();
  }
  const auto chosen = static_cast<std::uint32_t>(hand_);
  hand_ = (hand_ + 1) % entries_.size();
  erase(entries_[chosen].key);
  return chosen;
}

EstimateLevel& EstimateTable::take(std::uint64_t key) {
  std::uint32_t entry = places_[place_of(key)];
  if (entry == kEmpty) {
    if (entries_.size() < capacity_) {
      entry = static_cast<std::uint32_t>(entries_.size());
      entries_.emplace_back();
      entries_[entry].key = key;
      if (entries_.size() * 2 > places_.size()) {
        grow();
      } else {
        insert(key, entry);
      }
    } else {
      entry = evict();
      entries_[entry].level = EstimateLevel();
      entries_[entry].key = key;
      insert(key, entry);
    }
  }
  entries_[entry].used = true;
  return entries_[entry].level;
}

}  // namespace weir::governor
