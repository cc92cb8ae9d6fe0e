// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

namespace weir::config {

/// What kind of value a key takes.
enum class Type : std::uint8_t {
  boolean,
  count,      ///< whole number with k, M, G
  allowance,  ///< a limit's amount: a count, or a fraction below 1
  bytes,
  duration,
  percent,
  decimal,
  rate,   ///< "2.0/m", "10%/m"
  money,  ///< US dollars
  text,
  secret,   ///< never shown; may also be given as `<key>_file`
  choice,   ///< one of `choices`
  date,     ///< 2027-01-31 or 2027-01-31T12:00:00Z
  address,  ///< host:port, [v6]:port, unix:/path
  url,
  choices,    ///< list of `choices`
  texts,      ///< list of text
  addresses,  ///< one address or a list of them
  text_map,   ///< free keys, text values
  record,     ///< a map with the keys of `record`
  records,    ///< a list of such maps
  named,      ///< free names, each with a map of `record`
  anything,   ///< not looked into
};

struct Record;

/// One key of the configuration. The validation, the JSON Schema and the reference page are made
/// from this table, and the defaults are read from it, so that they cannot disagree.
struct Field {
  std::string_view key;
  Type type = Type::text;
  std::string_view doc;
  std::string_view fallback = {};       ///< the default as it would be written; empty: none
  std::string_view words = {};          ///< further words it takes, "auto|full"
  std::string_view choices = {};        ///< choice, choices: "a|b"
  std::string_view later_choices = {};  ///< understood, but not in this version
  const Record* record = nullptr;
  bool required = false;
  bool later = false;              ///< not in this version
  std::string_view harmless = {};  ///< a later key's values that ask for nothing, "false|0%"
  std::int64_t low = 0;            ///< count, bytes, duration (ns), percent (in %)
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
  bool model_names = false;  ///< named: names are model names, with any character
};

struct Record {
  std::string_view name;
  std::string_view doc;
  std::span<const Field> fields;
};

/// The whole configuration.
const Record& schema();

/// The field of a record; nullptr if there is none. A secret is also found under `<key>_file`.
const Field* find_field(const Record& record, std::string_view key);
/// Every key a record takes.
std::vector<std::string_view> keys_of(const Record& record);
/// The parts of "a|b|c".
std::vector<std::string_view> split(std::string_view list);

}  // namespace weir::config
