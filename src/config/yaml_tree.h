// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "config/faults.h"

namespace weir::config {

/// One value of a YAML text with its place. An alias shares the node it names.
struct Node {
  enum class Kind : std::uint8_t { null, scalar, sequence, map };
  struct Member {
    std::string key;
    Place place;
    std::shared_ptr<Node> value;
  };

  Kind kind = Kind::null;
  Place place;
  std::string text;       ///< scalar: its value, variables expanded
  std::string source;     ///< scalar: as it stands in the file; shown instead of an expanded value
  bool plain = true;      ///< scalar: written without quotes
  bool expanded = false;  ///< scalar: holds the value of a variable
  bool prepared = false;  ///< duplicates looked for and variables expanded
  std::vector<Member> members;
  std::vector<std::shared_ptr<Node>> items;
  std::uint64_t weight = 1;  ///< nodes in it, aliases counted each time
  std::uint32_t height = 1;  ///< depth of nesting in it

  /// The member's value; nullptr if absent or null, which mean the same.
  [[nodiscard]] const Node* find(std::string_view key) const;
};

/// Bounds of a configuration: what is larger is a mistake or an attack, and says so.
inline constexpr std::size_t kMaxFileBytes = std::size_t{4} << 20U;
inline constexpr std::uint64_t kMaxNodes = 200'000;
inline constexpr std::uint32_t kMaxDepth = 32;

/// Reads one YAML document. Nothing of the YAML library leaves the .cc, its exceptions neither.
/// Errors: faults for syntax, second documents, tags, aliases that loop or grow beyond the bounds;
/// nullptr where nothing can be read on.
std::shared_ptr<Node> parse_yaml(std::string_view text, Faults& faults);

/// Looks for duplicate and merge keys and expands `${NAME}`, `${NAME:-default}` and `$$`.
void prepare(Node& node, std::string_view path, Environment environment, Faults& faults);

}  // namespace weir::config
