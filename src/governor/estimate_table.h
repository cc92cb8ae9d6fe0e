// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "governor/estimate_level.h"

namespace weir::governor {

/// What is known of callers and tenants, by a hash of their names, in bounded memory: at most
/// `capacity` of them, of about 1.6 KB each. When it is full, one that has not been learned from
/// lately makes room. Allocates only for the first so many keys.
/// Threads: one owner. References stay valid until the next `take`.
class EstimateTable {
 public:
  /// Of one process: 32 MB.
  static constexpr std::size_t kCapacity = 20'000;
  explicit EstimateTable(std::size_t capacity = kCapacity);

  /// Null: nothing is known. `key` is not 0.
  [[nodiscard]] const EstimateLevel* find(std::uint64_t key) const;
  /// The level of a key, made if need be, and marked as used.
  EstimateLevel& take(std::uint64_t key);
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  /// The `index`-th of them, in no order: its key.
  [[nodiscard]] std::uint64_t key_at(std::size_t index) const { return entries_[index].key; }
  [[nodiscard]] const EstimateLevel& level_at(std::size_t index) const {
    return entries_[index].level;
  }

 private:
  struct Entry {
    std::uint64_t key = 0;
    bool used = false;
    EstimateLevel level;
  };
  [[nodiscard]] std::size_t place_of(std::uint64_t key) const;
  void insert(std::uint64_t key, std::uint32_t entry);
  void erase(std::uint64_t key);
  void grow();
  std::uint32_t evict();

  std::size_t capacity_;
  std::deque<Entry> entries_;
  std::vector<std::uint32_t> places_;  // open addressing, at most half full
  std::size_t hand_ = 0;
};

}  // namespace weir::governor
