// SPDX-License-Identifier: Apache-2.0
#include "config/yaml_tree.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace weir::config {

const Node* Node::find(std::string_view key) const {
  for (const Member& member : members) {
    if (member.key == key) {
      return member.value->kind == Kind::null ? nullptr : member.value.get();
    }
  }
  return nullptr;
}

namespace {

Place place_of(const YAML::Mark& mark) {
  if (mark.is_null()) return {};
  return {mark.line + 1, mark.column + 1};
}

/// Builds the tree from the parser's events. The parser cannot be stopped without an exception, so
/// after a fatal fault the rest of its events is dropped.
class Builder final : public YAML::EventHandler {
 public:
  explicit Builder(Faults& faults) : faults_(faults) {}

  std::shared_ptr<Node> root() { return dead_ ? nullptr : root_; }
  void begin_document(bool first) { first_ = first; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (first_) return;
    fatal(mark, "a second document begins here", "keep one document; remove the line \"---\"");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    auto node = make(mark, Node::Kind::null);
    name_anchor(anchor, node);
    attach(mark, std::move(node));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (dead_) return;
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end() || open_.contains(anchor)) {
      fatal(mark, "this alias refers to something that is not complete", "write the value out");
      return;
    }
    attach(mark, found->second);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    auto node = make(mark, Node::Kind::scalar);
    node->text = value;
    node->source = value;
    node->plain = tag != "!";
    check_tag(mark, tag);
    name_anchor(anchor, node);
    attach(mark, std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::sequence);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::map);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Frame {
    std::shared_ptr<Node> node;
    YAML::anchor_t anchor = 0;
    YAML::Mark mark;
    std::optional<Node::Member> key;  ///< a map's key that waits for its value
  };

  void fatal(const YAML::Mark& mark, std::string message, std::string fix) {
    if (!dead_) faults_.add(place_of(mark), "", std::move(message), std::move(fix));
    dead_ = true;
  }

  static std::shared_ptr<Node> make(const YAML::Mark& mark, Node::Kind kind) {
    auto node = std::make_shared<Node>();
    node->kind = kind;
    node->place = place_of(mark);
    return node;
  }

  void check_tag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    fatal(mark, fmt::format("the tag {} is not understood", config::quoted(tag)),
          "write the plain value");
  }

  void name_anchor(YAML::anchor_t anchor, const std::shared_ptr<Node>& node) {
    if (anchor != 0 && !dead_) anchors_[anchor] = node;
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            Node::Kind kind) {
    if (dead_) return;
    check_tag(mark, tag);
    if (stack_.size() >= kMaxDepth) {
      fatal(mark, fmt::format("nested deeper than {} levels", kMaxDepth), "flatten it");
      return;
    }
    auto node = make(mark, kind);
    name_anchor(anchor, node);
    if (anchor != 0) open_.insert({anchor, true});
    stack_.push_back({std::move(node), anchor, mark, {}});
  }

  void close() {
    if (dead_ || stack_.empty()) return;
    Frame frame = std::move(stack_.back());
    stack_.pop_back();
    open_.erase(frame.anchor);
    attach(frame.mark, std::move(frame.node));
  }

  void attach(const YAML::Mark& mark, std::shared_ptr<Node> node) {
    if (dead_) return;
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& frame = stack_.back();
    Node& parent = *frame.node;
    parent.weight += node->weight;
    parent.height = std::max(parent.height, node->height + 1);
    if (parent.weight > kMaxNodes) {
      fatal(mark, fmt::format("more than {} values, aliases counted each time", kMaxNodes),
            "split it up, or use fewer aliases");
      return;
    }
    if (stack_.size() + node->height > kMaxDepth) {
      fatal(mark, fmt::format("nested deeper than {} levels", kMaxDepth), "flatten it");
      return;
    }
    if (parent.kind == Node::Kind::sequence) {
      parent.items.push_back(std::move(node));
    } else if (!frame.key) {
      if (node->kind != Node::Kind::scalar) {
        fatal(mark, "a key is not a plain word", "write the key as text");
        return;
      }
      frame.key = Node::Member{node->text, node->place, nullptr};
    } else {
      frame.key->value = std::move(node);
      parent.members.push_back(std::move(*frame.key));
      frame.key.reset();
    }
  }

  Faults& faults_;
  bool first_ = true;
  bool dead_ = false;
  std::shared_ptr<Node> root_;
  std::vector<Frame> stack_;
  std::unordered_map<YAML::anchor_t, std::shared_ptr<Node>> anchors_;
  std::unordered_map<YAML::anchor_t, bool> open_;
};

}  // namespace

namespace {

/// Where so many brackets are open that no configuration can be meant, whatever stands in quotes;
/// the text's size: nowhere. The parser takes minutes to find that out by itself.
std::size_t hopeless_depth(std::string_view text) {
  constexpr std::int64_t kHopeless = 1000;
  std::int64_t open = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '[' || text[at] == '{') ++open;
    if ((text[at] == ']' || text[at] == '}') && open > 0) --open;
    if (open > kHopeless) return at;
  }
  return text.size();
}

/// The place of the first tab that indents a line, not after `line`; nowhere if there is none.
Place tab_in_indentation(std::string_view text, std::int32_t line) {
  for (std::int32_t number = 1; number <= line && !text.empty(); ++number) {
    const std::size_t at = text.find_first_not_of(' ');
    if (at != std::string_view::npos && text[at] == '\t') {
      return {number, static_cast<std::int32_t>(at) + 1};
    }
    const std::size_t end = text.find('\n');
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return {};
}

}  // namespace

std::shared_ptr<Node> parse_yaml(std::string_view text, Faults& faults) {
  if (text.size() > kMaxFileBytes) {
    faults.add({}, "", fmt::format("the file is larger than {} MiB", kMaxFileBytes >> 20U),
               "split it up");
    return nullptr;
  }
  if (const std::size_t at = hopeless_depth(text); at != text.size()) {
    const auto line =
        std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    faults.add({static_cast<std::int32_t>(line) + 1, 1}, "",
               fmt::format("the document is nested deeper than {} levels", kMaxDepth),
               "close the brackets");
    return nullptr;
  }
  Builder builder(faults);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) {
      auto nothing = std::make_shared<Node>();
      nothing->kind = Node::Kind::map;
      nothing->place = {1, 1};
      return nothing;
    }
    builder.begin_document(false);
    parser.HandleNextDocument(builder);
  } catch (const YAML::Exception& wrong) {
    const Place tab = tab_in_indentation(text, place_of(wrong.mark).line);
    if (tab.line > 0) {
      faults.add(tab, "", "not YAML: a tab indents this line", "indent with spaces");
      return nullptr;
    }
    faults.add(place_of(wrong.mark), "", fmt::format("not YAML: {}", printable(wrong.msg)),
               "check indentation, quotes and brackets here and just above");
    return nullptr;
  } catch (const std::exception& wrong) {
    faults.add({}, "", fmt::format("not YAML: {}", printable(wrong.what())), "check its syntax");
    return nullptr;
  }
  return builder.root();
}

namespace {

bool name_start(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_';
}

bool variable_name(std::string_view name) {
  if (name.empty() || !name_start(name.front())) return false;
  return std::all_of(name.begin(), name.end(),
                     [](char byte) { return name_start(byte) || (byte >= '0' && byte <= '9'); });
}

/// Expands the variables of one scalar in place.
void expand(Node& node, std::string_view path, Environment environment, Faults& faults) {
  if (node.text.find('$') == std::string::npos) return;
  constexpr std::size_t kLongest = std::size_t{64} << 10U;
  const std::string from = node.source;
  std::string out;
  std::size_t at = 0;
  while (at < from.size()) {
    if (from[at] != '$' || at + 1 == from.size()) {
      out += from[at++];
      continue;
    }
    if (from[at + 1] == '$') {
      out += '$';
      at += 2;
      continue;
    }
    if (from[at + 1] != '{') {
      out += from[at++];
      continue;
    }
    const std::size_t end = from.find('}', at);
    if (end == std::string::npos) {
      faults.add(node.place, path, "a variable is not closed",
                 "write ${NAME}, ${NAME:-default}, or $$ for a dollar sign");
      return;
    }
    const std::string_view inside = std::string_view(from).substr(at + 2, end - at - 2);
    const std::size_t dash = inside.find(":-");
    const std::string_view name = inside.substr(0, dash);
    if (!variable_name(name)) {
      faults.add(node.place, path, fmt::format("{} is not a variable's name", config::quoted(name)),
                 "write ${NAME}, ${NAME:-default}, or $$ for a dollar sign");
      return;
    }
    std::optional<std::string> value = environment ? environment(name) : std::nullopt;
    if (dash != std::string_view::npos && (!value || value->empty())) {
      value = std::string(inside.substr(dash + 2));
    }
    if (!value) {
      faults.add(node.place, path, fmt::format("the environment variable {} is not set", name),
                 fmt::format("set it, or write ${{{}:-default}}", name));
      return;
    }
    out += *value;
    node.expanded = true;
    at = end + 1;
    if (out.size() > kLongest) {
      faults.add(node.place, path, "the expanded value is longer than 64 KiB", "shorten it");
      return;
    }
  }
  node.text = std::move(out);
}

void find_duplicates(const Node& node, std::string_view path, Faults& faults) {
  std::vector<const Node::Member*> sorted;
  sorted.reserve(node.members.size());
  for (const Node::Member& member : node.members) {
    sorted.push_back(&member);
    if (member.key == "<<") {
      faults.add(member.place, path, "merge keys (<<) are not supported", "write the keys out");
    }
  }
  std::sort(sorted.begin(), sorted.end(), [](const auto* left, const auto* right) {
    // The members stand in one array, so the first of two equal keys has the lower address.
    return std::tie(left->key, left) < std::tie(right->key, right);
  });
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i]->key != sorted[i - 1]->key || sorted[i]->key == "<<") continue;
    faults.add(
        sorted[i]->place, join(path, sorted[i]->key),
        fmt::format("the key stands twice; the first is at line {}", sorted[i - 1]->place.line),
        "remove one of them");
  }
}

}  // namespace

void prepare(Node& node, std::string_view path, Environment environment, Faults& faults) {
  if (node.prepared) return;
  node.prepared = true;
  switch (node.kind) {
    case Node::Kind::null: return;
    case Node::Kind::scalar: expand(node, path, environment, faults); return;
    case Node::Kind::sequence:
      for (std::size_t i = 0; i < node.items.size(); ++i) {
        prepare(*node.items[i], join(path, i), environment, faults);
      }
      return;
    case Node::Kind::map:
      find_duplicates(node, path, faults);
      for (Node::Member& member : node.members) {
        // A null stands nowhere of its own; the key's place is the useful one.
        if (member.value->kind == Node::Kind::null) member.value->place = member.place;
        prepare(*member.value, join(path, member.key), environment, faults);
      }
      return;
  }
}

}  // namespace weir::config
