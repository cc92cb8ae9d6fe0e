// SPDX-License-Identifier: Apache-2.0
#include "config/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

namespace weir::config {

void Faults::add(Place place, std::string_view path, std::string message, std::string fix) {
  if (list_.size() >= kMaxFaults) {
    ++left_out_;
    return;
  }
  list_.push_back(
      {file_, place.line, place.column, std::string(path), std::move(message), std::move(fix)});
}

std::vector<Diagnostic> Faults::take() {
  std::vector<std::size_t> order(list_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  // What stands at one place keeps the order in which it was found.
  std::sort(order.begin(), order.end(), [this](std::size_t left, std::size_t right) {
    return std::tie(list_[left].line, list_[left].column, left) <
           std::tie(list_[right].line, list_[right].column, right);
  });
  std::vector<Diagnostic> sorted;
  sorted.reserve(order.size() + 1);
  for (const std::size_t index : order) sorted.push_back(std::move(list_[index]));
  if (left_out_ > 0) {
    sorted.push_back({file_, 0, 0, "", fmt::format("{} more faults are not shown", left_out_),
                      "mend those above first"});
  }
  list_.clear();
  left_out_ = 0;
  return sorted;
}

std::string printable(std::string_view text) {
  std::string out;
  for (const char byte : text) {
    const auto code = static_cast<unsigned char>(byte);
    if (code < 0x20 || code == 0x7f) {
      out += fmt::format("\\x{:02x}", code);
    } else {
      out += byte;
    }
  }
  return out;
}

std::string quoted(std::string_view text) {
  constexpr std::size_t kShown = 60;
  if (text.size() <= kShown) return fmt::format("\"{}\"", printable(text));
  std::size_t cut = kShown;
  // A UTF-8 character is not cut in two.
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xc0U) == 0x80U) --cut;
  return fmt::format("\"{}...\"", printable(text.substr(0, cut)));
}

namespace {

bool plain_key(std::string_view key) {
  return !key.empty() && std::all_of(key.begin(), key.end(), [](char byte) {
    const auto code = static_cast<unsigned char>(byte);
    return (code >= '0' && code <= '9') || (code >= 'a' && code <= 'z') ||
           (code >= 'A' && code <= 'Z') || code == '_' || code == '-' || code >= 0x80;
  });
}

/// The number of insertions, deletions, changes and swaps of neighbours between two words.
std::size_t distance(std::string_view left, std::string_view right) {
  std::vector<std::size_t> before(right.size() + 1), row(right.size() + 1), next(right.size() + 1);
  for (std::size_t j = 0; j <= right.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= left.size(); ++i) {
    next[0] = i;
    for (std::size_t j = 1; j <= right.size(); ++j) {
      const std::size_t change = left[i - 1] == right[j - 1] ? 0 : 1;
      next[j] = std::min({row[j] + 1, next[j - 1] + 1, row[j - 1] + change});
      if (i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1]) {
        next[j] = std::min(next[j], before[j - 2] + 1);
      }
    }
    std::swap(before, row);
    std::swap(row, next);
  }
  return row[right.size()];
}

}  // namespace

std::string join(std::string_view path, std::string_view key) {
  const std::string last = plain_key(key) ? std::string(key) : config::quoted(key);
  return path.empty() ? last : fmt::format("{}.{}", path, last);
}

std::string join(std::string_view path, std::size_t index) {
  return fmt::format("{}[{}]", path, index);
}

std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates) {
  constexpr std::size_t kLongest = 64;
  // Names that people bring along from elsewhere and that no edit distance finds.
  static constexpr std::pair<std::string_view, std::string_view> kElsewhere[] = {
      {"tpm", "total_tpm"},
      {"max_concurrency", "concurrency"},
      {"itpm", "input_tpm"},
      {"otpm", "output_tpm"},
      {"max_parallel_requests", "concurrency"},
      {"key", "api_key"},
      {"url", "base_url"},
      {"api_base", "base_url"},
      {"priority_class", "class"}};
  for (const auto& [theirs, ours] : kElsewhere) {
    if (word == theirs && std::find(candidates.begin(), candidates.end(), ours) != candidates.end())
      return ours;
  }
  if (word.size() > kLongest) return {};
  std::string_view best;
  std::size_t least = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string_view candidate : candidates) {
    if (candidate.size() > kLongest) continue;
    const std::size_t steps = distance(word, candidate);
    if (steps < least) {
      least = steps;
      best = candidate;
    }
  }
  return best;
}

std::string suggest(std::string_view word, const std::vector<std::string_view>& candidates) {
  if (const std::string_view near = nearest(word, candidates); !near.empty()) {
    return fmt::format("did you mean {}?", config::quoted(near));
  }
  if (candidates.empty()) return "there is none yet; add it";
  constexpr std::size_t kShown = 30;
  std::string list;
  for (std::size_t i = 0; i < candidates.size() && i < kShown; ++i) {
    list += fmt::format("{}{}", i == 0 ? "" : ", ", printable(candidates[i].substr(0, 64)));
  }
  if (candidates.size() > kShown) list += ", ...";
  return fmt::format("use one of: {}", list);
}

}  // namespace weir::config
