// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/faults.h"
#include "config/quantity.h"
#include "config/schema.h"
#include "config/yaml_tree.h"

namespace weir::config {

/// Checks `node` against `record`: unknown keys, wrong types and values, what is missing, what is
/// not in this version. Every fault it can find is added.
void check(const Node& node, const Record& record, std::string_view path, Faults& faults);

/// Reads one map that `check` has looked at. A value that is absent or was found wrong comes back
/// as the default of the schema, so a reader never reports a fault a second time.
class Section {
 public:
  Section(const Node* node, const Record& record, std::string path)
      : node_(node), record_(&record), path_(std::move(path)) {}

  [[nodiscard]] bool present() const { return node_ != nullptr; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string path(std::string_view key) const { return join(path_, key); }
  /// The place of a key's value; of the section where the key is absent.
  [[nodiscard]] Place place(std::string_view key) const;
  [[nodiscard]] Place place() const { return node_ == nullptr ? Place{} : node_->place; }
  [[nodiscard]] bool has(std::string_view key) const { return find(key) != nullptr; }

  [[nodiscard]] bool boolean(std::string_view key) const;
  [[nodiscard]] std::optional<std::int64_t> count(std::string_view key) const;
  [[nodiscard]] std::int64_t bytes(std::string_view key) const;
  [[nodiscard]] std::optional<Duration> duration(std::string_view key) const;
  [[nodiscard]] std::optional<double> percent(std::string_view key) const;
  [[nodiscard]] std::optional<double> decimal(std::string_view key) const;
  /// The text of a text, choice or word; the default where it is absent.
  [[nodiscard]] std::string text(std::string_view key) const;
  [[nodiscard]] std::vector<std::string> texts(std::string_view key) const;
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> text_map(
      std::string_view key) const;
  [[nodiscard]] std::optional<Allowance> allowance(std::string_view key, Duration window) const;
  [[nodiscard]] Section section(std::string_view key) const;
  [[nodiscard]] std::vector<Section> sections(std::string_view key) const;
  [[nodiscard]] std::vector<std::pair<std::string, Section>> named(std::string_view key) const;
  [[nodiscard]] const Node* find(std::string_view key) const {
    return node_ == nullptr ? nullptr : node_->find(key);
  }

 private:
  [[nodiscard]] const Field& field(std::string_view key) const;
  template <class T, class Parse>
  [[nodiscard]] std::optional<T> value(std::string_view key, Parse parse) const;

  const Node* node_;
  const Record* record_;
  std::string path_;
};

}  // namespace weir::config
