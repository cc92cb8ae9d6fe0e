// SPDX-License-Identifier: Apache-2.0
#include "config/section.h"

namespace weir::config {

namespace {

const Field& nothing() {
  static constexpr Field kNothing{};
  return kNothing;
}

bool is_word(const Field& field, std::string_view text) {
  for (const std::string_view word : split(field.words)) {
    if (word == text) return true;
  }
  return false;
}

}  // namespace

Place Section::place(std::string_view key) const {
  const Node* node = find(key);
  return node == nullptr ? place() : node->place;
}

const Field& Section::field(std::string_view key) const {
  const Field* found = find_field(*record_, key);
  return found == nullptr ? nothing() : *found;
}

template <class T, class Parse>
std::optional<T> Section::value(std::string_view key, Parse parse) const {
  const Field& what = field(key);
  std::string_view text = what.fallback;
  if (const Node* node = find(key); node != nullptr) {
    const Parsed<std::string_view> given = quantity_text(*node);
    if (given) text = *given;
  }
  if (text.empty() || is_word(what, text)) return std::nullopt;
  const auto parsed = parse(text);
  if (parsed) return *parsed;
  if (what.fallback.empty() || is_word(what, what.fallback)) return std::nullopt;
  const auto fallback = parse(what.fallback);
  return fallback ? std::optional<T>(*fallback) : std::nullopt;
}

bool Section::boolean(std::string_view key) const {
  const Node* node = find(key);
  const std::string_view fallback = field(key).fallback;
  const std::string_view given = node == nullptr ? fallback : std::string_view(node->text);
  return given == "true" || (given != "false" && fallback == "true");
}

std::optional<std::int64_t> Section::count(std::string_view key) const {
  return value<std::int64_t>(key, parse_count);
}
std::int64_t Section::bytes(std::string_view key) const {
  return value<std::int64_t>(key, parse_bytes).value_or(0);
}
std::optional<Duration> Section::duration(std::string_view key) const {
  return value<Duration>(key, parse_duration);
}
std::optional<double> Section::percent(std::string_view key) const {
  return value<double>(key, parse_percent);
}
std::optional<double> Section::decimal(std::string_view key) const {
  return value<double>(key, parse_decimal);
}
std::optional<Allowance> Section::allowance(std::string_view key, Duration window) const {
  return value<Allowance>(
      key, [window](std::string_view text) { return parse_allowance(text, window); });
}

std::string Section::text(std::string_view key) const {
  const Node* node = find(key);
  if (node != nullptr && node->kind == Node::Kind::scalar) return node->text;
  return std::string(field(key).fallback);
}

std::vector<std::string> Section::texts(std::string_view key) const {
  std::vector<std::string> out;
  const Node* node = find(key);
  if (node == nullptr) {
    for (const std::string_view part : split(field(key).fallback)) out.emplace_back(part);
    return out;
  }
  if (node->kind == Node::Kind::scalar) return {node->text};
  for (const auto& item : node->items) {
    if (item->kind == Node::Kind::scalar) out.push_back(item->text);
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> Section::text_map(std::string_view key) const {
  std::vector<std::pair<std::string, std::string>> out;
  const Node* node = find(key);
  if (node == nullptr) return out;
  for (const Node::Member& member : node->members) {
    if (member.value->kind == Node::Kind::scalar) out.emplace_back(member.key, member.value->text);
  }
  return out;
}

Section Section::section(std::string_view key) const {
  const Field& what = field(key);
  const Node* node = find(key);
  if (node != nullptr && node->kind != Node::Kind::map) node = nullptr;
  return {node, what.record == nullptr ? *record_ : *what.record, path(key)};
}

std::vector<Section> Section::sections(std::string_view key) const {
  std::vector<Section> out;
  const Field& what = field(key);
  const Node* node = find(key);
  if (node == nullptr || what.record == nullptr) return out;
  for (std::size_t i = 0; i < node->items.size(); ++i) {
    if (node->items[i]->kind != Node::Kind::map) continue;
    out.emplace_back(node->items[i].get(), *what.record, join(path(key), i));
  }
  return out;
}

std::vector<std::pair<std::string, Section>> Section::named(std::string_view key) const {
  std::vector<std::pair<std::string, Section>> out;
  const Field& what = field(key);
  const Node* node = find(key);
  if (node == nullptr || what.record == nullptr) return out;
  for (const Node::Member& member : node->members) {
    if (member.value->kind == Node::Kind::scalar || member.value->kind == Node::Kind::sequence) {
      continue;
    }
    out.emplace_back(member.key,
                     Section(member.value.get(), *what.record, join(path(key), member.key)));
  }
  return out;
}

}  // namespace weir::config
