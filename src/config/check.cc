// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "config/address.h"
#include "config/section.h"

namespace weir::config {

namespace {

std::string_view kind_name(Node::Kind kind) {
  switch (kind) {
    case Node::Kind::null: return "nothing";
    case Node::Kind::scalar: return "a single value";
    case Node::Kind::sequence: return "a list";
    case Node::Kind::map: return "a map";
  }
  return "nothing";
}

/// Walks a value along the schema.
class Checker {
 public:
  explicit Checker(Faults& faults) : faults_(faults) {}

  void map(const Node& node, const Record& record, const std::string& path) {
    if (node.kind == Node::Kind::null) return missing(node, record, path);
    if (!expect(node, Node::Kind::map, path)) return;
    for (const Node::Member& member : node.members) {
      const std::string at = join(path, member.key);
      const Field* field = find_field(record, member.key);
      if (field == nullptr) {
        if (member.key == "<<") continue;  // reported where merges are
        faults_.add(member.place, at, fmt::format("unknown key {}", config::quoted(member.key)),
                    suggest(member.key, keys_of(record)));
        continue;
      }
      if (member.value->kind == Node::Kind::null) continue;
      value(*member.value, *field, at, member.key != field->key);
    }
    missing(node, record, path);
  }

 private:
  void missing(const Node& node, const Record& record, const std::string& path) {
    for (const Field& field : record.fields) {
      if (field.type == Type::secret && node.find(field.key) != nullptr &&
          node.find(fmt::format("{}_file", field.key)) != nullptr) {
        faults_.add(node.find(field.key)->place, join(path, field.key),
                    fmt::format("both {0} and {0}_file are given", field.key), "keep one of them");
      }
      if (!field.required || node.find(field.key) != nullptr) continue;
      faults_.add(node.place, join(path, field.key), "this key is missing",
                  fmt::format("add it: {}", field.doc));
    }
  }

  bool expect(const Node& node, Node::Kind kind, const std::string& path) {
    if (node.kind == kind) return true;
    faults_.add(node.place, path,
                fmt::format("{} stands where {} belongs", kind_name(node.kind), kind_name(kind)),
                fmt::format("write {}", kind_name(kind)));
    return false;
  }

  void later(const Node& node, std::string_view what, const std::string& path) {
    faults_.add(node.place, path, fmt::format("{} is not in this version", what), "remove it");
  }

  static bool asks_for_nothing(const Node& node, std::string_view harmless) {
    if (node.kind != Node::Kind::scalar) {
      return harmless == "empty" && node.members.empty() && node.items.empty();
    }
    for (const std::string_view word : split(harmless)) {
      if (node.text == word) return true;
    }
    return false;
  }

  void value(const Node& node, const Field& field, const std::string& path, bool is_file) {
    if (field.later && !asks_for_nothing(node, field.harmless)) later(node, field.key, path);
    if (is_file) {
      if (expect(node, Node::Kind::scalar, path) && node.text.empty()) {
        faults_.add(node.place, path, "the path is empty", "write the path of a file");
      }
      return;
    }
    switch (field.type) {
      case Type::anything: return;
      case Type::record: return map(node, *field.record, path);
      case Type::records: return list(node, field, path);
      case Type::named: return names(node, field, path);
      case Type::text_map: return texts_by_key(node, path);
      case Type::texts:
      case Type::choices:
        if (expect(node, Node::Kind::sequence, path)) each(node, field, path);
        return;
      case Type::addresses:
        if (node.kind == Node::Kind::sequence) return each(node, field, path);
        return scalar(node, field, path);
      case Type::boolean:
      case Type::count:
      case Type::allowance:
      case Type::bytes:
      case Type::duration:
      case Type::percent:
      case Type::decimal:
      case Type::rate:
      case Type::money:
      case Type::text:
      case Type::secret:
      case Type::choice:
      case Type::date:
      case Type::address:
      case Type::url: return scalar(node, field, path);
    }
  }

  void list(const Node& node, const Field& field, const std::string& path) {
    if (!expect(node, Node::Kind::sequence, path)) return;
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      map(*node.items[i], *field.record, join(path, i));
    }
  }

  void each(const Node& node, const Field& field, const std::string& path) {
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      scalar(*node.items[i], field, join(path, i));
    }
  }

  void texts_by_key(const Node& node, const std::string& path) {
    if (!expect(node, Node::Kind::map, path)) return;
    for (const Node::Member& member : node.members) {
      expect(*member.value, Node::Kind::scalar, join(path, member.key));
    }
  }

  void names(const Node& node, const Field& field, const std::string& path) {
    if (!expect(node, Node::Kind::map, path)) return;
    for (const Node::Member& member : node.members) {
      const std::string at = join(path, member.key);
      name(member, field, at);
      map(*member.value, *field.record, at);
    }
  }

  /// Names go into paths ("acme/search/prod"), metric labels and headers, so they are kept plain.
  void name(const Node::Member& member, const Field& field, const std::string& path) {
    constexpr std::size_t kNameMost = 64;
    constexpr std::size_t kModelMost = 256;
    const std::string& name = member.key;
    if (name == "<<") return;
    if (field.model_names) {
      const bool odd = std::any_of(name.begin(), name.end(), [](char byte) {
        return static_cast<unsigned char>(byte) < 0x21 || byte == 0x7f;
      });
      if (odd || name.empty() || name.size() > kModelMost) {
        faults_.add(member.place, path, "a model's name is empty, too long or holds blanks",
                    "use at most 256 visible characters");
      } else if (name != "*" && name.find('*') != std::string::npos) {
        faults_.add(member.place, path, "a pattern among the models is not in this version",
                    "use \"*\" alone, for every other name");
      }
      return;
    }
    const bool good = std::all_of(name.begin(), name.end(), [](char byte) {
      return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
             (byte >= 'A' && byte <= 'Z') || byte == '-' || byte == '_' || byte == '.' ||
             byte == ':' || byte == '@';
    });
    if (!good || name.empty() || name.size() > kNameMost) {
      faults_.add(member.place, path, "this is not a name",
                  "use at most 64 letters, digits and - _ . : @");
    }
  }

  void scalar(const Node& node, const Field& field, const std::string& path) {
    if (!expect(node, Node::Kind::scalar, path)) return;
    for (const std::string_view word : split(field.words)) {
      if (node.text == word) return;
    }
    switch (field.type) {
      case Type::boolean: return boolean(node, path);
      case Type::count: return number(node, field, path, parse_count);
      case Type::bytes: return number(node, field, path, parse_bytes);
      case Type::duration:
        return number(node, field, path, [](std::string_view text) -> Parsed<std::int64_t> {
          const Parsed<Duration> parsed = parse_duration(text);
          if (!parsed) return std::unexpected(parsed.error());
          return parsed->count();
        });
      case Type::percent: return percent(node, field, path);
      case Type::allowance:
        // The window only matters to amounts below 1; `concurrency` has none.
        return quantity(node, path, [&field](std::string_view text) {
          const bool level = field.key == "concurrency" || field.key == "concurrent_tasks";
          return parse_allowance(text, level ? Duration::zero() : std::chrono::minutes(1));
        });
      case Type::decimal: return quantity(node, path, parse_decimal);
      case Type::rate: return quantity(node, path, parse_rate);
      case Type::money: return quantity(node, path, parse_money);
      case Type::date: return shaped(node, path, parse_date);
      case Type::address:
      case Type::addresses: return shaped(node, path, parse_listen);
      case Type::url: {
        const Parsed<BaseUrl> url = parse_base_url(node.text);
        if (!url && !field.later) faults_.add(node.place, path, url.error());
        return;
      }
      case Type::choice:
      case Type::choices: return choice(node, field, path);
      case Type::text:
      case Type::texts:
        if (node.text.empty()) faults_.add(node.place, path, "the text is empty", "write a text");
        return;
      case Type::secret:
      case Type::text_map:
      case Type::record:
      case Type::records:
      case Type::named:
      case Type::anything: return;
    }
  }

  void boolean(const Node& node, const std::string& path) {
    if ((node.text == "true" || node.text == "false") && (node.plain || node.expanded)) return;
    faults_.add(node.place, path, about(node, {"is not a truth value", "write true or false"}));
  }

  template <class Parse>
  void quantity(const Node& node, const std::string& path, Parse parse) {
    const Parsed<std::string_view> text = quantity_text(node);
    if (!text) return faults_.add(node.place, path, about(node, text.error()));
    const auto parsed = parse(*text);
    if (!parsed) faults_.add(node.place, path, about(node, parsed.error()));
  }

  template <class Parse>
  void shaped(const Node& node, const std::string& path, Parse parse) {
    const auto parsed = parse(node.text);
    if (!parsed) faults_.add(node.place, path, about(node, parsed.error()));
  }

  template <class Parse>
  void number(const Node& node, const Field& field, const std::string& path, Parse parse) {
    quantity(node, path, [&](std::string_view text) -> Parsed<std::int64_t> {
      const Parsed<std::int64_t> parsed = parse(text);
      if (!parsed || (*parsed >= field.low && *parsed <= field.high)) return parsed;
      const auto show_bound = [&field](std::int64_t bound) {
        if (field.type == Type::bytes) return show_bytes(bound);
        if (field.type == Type::duration) return show(Duration(bound));
        return show_count(bound);
      };
      if (*parsed < field.low) {
        return std::unexpected(
            Problem{"is too small", fmt::format("write at least {}", show_bound(field.low))});
      }
      return std::unexpected(
          Problem{"is too large", fmt::format("write at most {}", show_bound(field.high))});
    });
  }

  void percent(const Node& node, const Field& field, const std::string& path) {
    quantity(node, path, [&field](std::string_view text) -> Parsed<double> {
      const Parsed<double> parsed = parse_percent(text);
      if (parsed && *parsed * 100 > static_cast<double>(field.high)) {
        return std::unexpected(
            Problem{"is too large", fmt::format("write at most {}%", field.high)});
      }
      if (!parsed && !field.words.empty()) {
        Problem problem = parsed.error();
        problem.fix += fmt::format(", or one of: {}", fmt::join(split(field.words), ", "));
        return std::unexpected(std::move(problem));
      }
      return parsed;
    });
  }

  void choice(const Node& node, const Field& field, const std::string& path) {
    const std::vector<std::string_view> choices = split(field.choices);
    if (std::find(choices.begin(), choices.end(), node.text) != choices.end()) return;
    for (const std::string_view word : split(field.later_choices)) {
      if (word == node.text) {
        faults_.add(node.place, path,
                    fmt::format("{} {} is not in this version", field.key, config::quoted(word)),
                    fmt::format("use one of: {}", fmt::join(choices, ", ")));
        return;
      }
    }
    faults_.add(node.place, path,
                about(node, {"is not one of the choices",
                             node.expanded ? fmt::format("use one of: {}", fmt::join(choices, ", "))
                                           : suggest(node.text, choices)}));
  }

  Faults& faults_;
};

}  // namespace

void check(const Node& node, const Record& record, std::string_view path, Faults& faults) {
  Checker(faults).map(node, record, std::string(path));
}

}  // namespace weir::config
