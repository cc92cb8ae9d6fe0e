// SPDX-License-Identifier: Apache-2.0
#include "config/schema_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "config/schema.h"

namespace weir::config {

namespace {

/// The records in the order in which the file can hold them, each once.
std::vector<const Record*> all_records(const Record& root = schema()) {
  std::vector<const Record*> records = {&root};
  for (std::size_t i = 0; i < records.size(); ++i) {
    for (const Field& field : records[i]->fields) {
      if (field.record == nullptr) continue;
      if (std::find(records.begin(), records.end(), field.record) != records.end()) continue;
      records.push_back(field.record);
    }
  }
  return records;
}

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char byte : text) {
    if (byte == '"' || byte == '\\') out += '\\';
    out += byte;
  }
  return out + "\"";
}

std::string json_list(std::string_view bars) {
  std::string out;
  for (const std::string_view word : split(bars)) {
    out += fmt::format("{}{}", out.empty() ? "" : ", ", json_text(word));
  }
  return "[" + out + "]";
}

std::string reference(std::string_view name) {
  return fmt::format("{{\"$ref\": \"#/$defs/{}\"}}", name);
}

/// The schema of one value without its description.
std::string value_schema(const Field& field) {
  switch (field.type) {
    case Type::boolean: return reference("_boolean");
    case Type::count: return reference("_count");
    case Type::allowance: return reference("_allowance");
    case Type::bytes: return reference("_bytes");
    case Type::duration: return reference("_duration");
    case Type::percent: return reference("_percent");
    case Type::decimal:
    case Type::money: return reference("_decimal");
    case Type::rate: return reference("_rate");
    case Type::text:
    case Type::secret:
    case Type::date:
    case Type::url:
    case Type::address: return reference("_text");
    case Type::choice:
      // A truth value among the choices is one for YAML, not a text.
      if (field.choices == "false") return "{\"const\": false}";
      return fmt::format("{{\"anyOf\": [{{\"enum\": {}}}, {}]}}", json_list(field.choices),
                         reference("_variable"));
    case Type::choices:
      return fmt::format("{{\"type\": \"array\", \"items\": {{\"enum\": {}}}}}",
                         json_list(field.choices));
    case Type::texts:
      return fmt::format("{{\"type\": \"array\", \"items\": {}}}", reference("_text"));
    case Type::addresses:
      return fmt::format(
          "{{\"anyOf\": [{}, {{\"type\": \"array\", \"items\": {}, \"minItems\": 1}}]}}",
          reference("_text"), reference("_text"));
    case Type::text_map:
      return fmt::format("{{\"type\": \"object\", \"additionalProperties\": {}}}",
                         reference("_text"));
    case Type::record: return reference(field.record->name);
    case Type::records:
      return fmt::format("{{\"type\": \"array\", \"items\": {}}}", reference(field.record->name));
    case Type::named:
      return fmt::format("{{\"type\": \"object\", \"additionalProperties\": {}}}",
                         reference(field.record->name));
    case Type::anything: return "{}";
  }
  return "{}";
}

std::string described(const Field& field, std::string_view key, std::string_view doc) {
  std::string value = value_schema(field);
  if (!field.words.empty()) {
    value = fmt::format("{{\"anyOf\": [{{\"enum\": {}}}, {}]}}", json_list(field.words), value);
  }
  std::string note;
  if (field.later) note = " (not in this version)";
  // Null means the same as leaving the key out.
  return fmt::format("        {}: {{\"description\": {}, \"anyOf\": [{{\"type\": \"null\"}}, {}]}}",
                     json_text(key), json_text(fmt::format("{}{}", doc, note)), value);
}

std::string record_schema(const Record& record) {
  std::string properties;
  std::string required;
  for (const Field& field : record.fields) {
    properties += fmt::format("{}{}", properties.empty() ? "" : ",\n",
                              described(field, field.key, field.doc));
    if (field.type == Type::secret) {
      properties += ",\n" + described(field, fmt::format("{}_file", field.key),
                                      fmt::format("A file that holds {}", field.key));
    }
    if (field.required) {
      required += fmt::format("{}{}", required.empty() ? "" : ", ", json_text(field.key));
    }
  }
  return fmt::format(
      "    {}: {{\n      \"description\": {},\n      \"type\": [\"object\", \"null\"],\n"
      "      \"additionalProperties\": false,\n      \"required\": [{}],\n"
      "      \"properties\": {{\n{}\n      }}\n    }}",
      json_text(record.name), json_text(record.doc), required, properties);
}

std::string_view type_text(Type type) {
  switch (type) {
    case Type::boolean: return "true or false";
    case Type::count: return "count";
    case Type::allowance: return "amount";
    case Type::bytes: return "bytes";
    case Type::duration: return "duration";
    case Type::percent: return "percentage";
    case Type::decimal: return "decimal";
    case Type::rate: return "rate";
    case Type::money: return "US dollars";
    case Type::text: return "text";
    case Type::secret: return "secret";
    case Type::choice: return "one of";
    case Type::date: return "date";
    case Type::address: return "address";
    case Type::url: return "URL";
    case Type::choices: return "list of";
    case Type::texts: return "list of texts";
    case Type::addresses: return "address, or a list";
    case Type::text_map: return "map of texts";
    case Type::record: return "map";
    case Type::records: return "list of maps";
    case Type::named: return "map by name";
    case Type::anything: return "any";
  }
  return "any";
}

/// Words with code marks, "`a`, `b`".
std::string words_text(std::string_view bars) {
  std::string out;
  for (const std::string_view word : split(bars)) {
    out += fmt::format("{}`{}`", out.empty() ? "" : ", ", word);
  }
  return out;
}

std::string title_of(const Record& record) {
  std::string title(record.name);
  std::replace(title.begin(), title.end(), '_', ' ');
  return title;
}

std::string link_to(const Record& record) {
  std::string anchor(record.name);
  std::replace(anchor.begin(), anchor.end(), '_', '-');
  return fmt::format("[{}](#{})", title_of(record), anchor);
}

std::string field_row(const Field& field) {
  std::string type(type_text(field.type));
  if (field.record != nullptr) type += ": " + link_to(*field.record);
  if (!field.choices.empty()) type += " " + words_text(field.choices);
  if (!field.words.empty()) type += ", or " + words_text(field.words);
  std::string fallback;
  if (!field.fallback.empty()) {
    fallback = field.type == Type::choices ? words_text(field.fallback)
                                           : fmt::format("`{}`", field.fallback);
  }
  std::string notes(field.doc);
  if (field.required) notes += ". Required";
  if (field.type == Type::secret) {
    notes += fmt::format(". Or `{}_file`: a path", field.key);
  }
  if (field.later) notes += ". **Not in this version**";
  if (field.later && !field.harmless.empty() && field.harmless != "empty") {
    notes += " beyond " + words_text(field.harmless);
  }
  if (!field.later_choices.empty()) {
    notes += ". Not in this version: " + words_text(field.later_choices);
  }
  return fmt::format("| `{}` | {} | {} | {} |\n", field.key, type, fallback, notes);
}

constexpr std::string_view kHead = R"(# Configuration

Made from the table in src/config/schema.cc; a test keeps it true. The same table makes
[config/weir.schema.json](../../config/weir.schema.json), which editors can use:
`# yaml-language-server: $schema=weir.schema.json`.

`weir check --config FILE` finds every fault of a file, with its place, the path of the key and the
fix; `--print` shows the configuration in force, with secrets masked and the origin of each rule.
An invalid file is exit code 3. On a reload it changes nothing.

## How values are written

- The file is YAML, and so may be JSON: one document of at most 4 MiB, 200,000 values and 32 levels.
  Unknown keys, keys that stand twice, `<<` merges, tags and second documents are errors. A key
  without a value (null) is the same as a key left out.
- `${NAME}` is the value of an environment variable, `${NAME:-default}` has a default for one that
  is not set or empty, `$$` is a dollar sign. They expand in values, after the YAML is read, so a
  variable cannot add keys. A variable that is not set and has no default is an error. A value that
  came from a variable is never repeated in a message.
- Secrets (`api_key`, `token`) may also stand in a file, named by `api_key_file` or `token_file`;
  one line end at its end is cut. It is read again on each reload, `admin.token` included.
- A reload takes everything but `server.listen`, `server.threads`, `server.limits` (`sync_wait`
  excepted), `admin.listen` and `stores.state`: these keep what they were at the start, and the log,
  the answer to the reload and the notices name those that differ.
- A relative path is looked for beside the configuration file, then in the working directory.
- Counts are whole numbers, with `k`, `M` or `G` for powers of 1000 (`800k`, `1.5M`, `1e6`). Bytes
  also take `KiB`, `MiB` and `GiB`.
- Durations are a decimal number with `ms`, `s`, `m`, `h` or `d`: `300ms`, `1.5s`, `12.000s`. A bare
  number is an error, but for `0`.
- Percentages end in `%`. Decimals are exact; the locale does not matter.
- A bare number in quotes is text and an error where a number belongs; with a unit behind it
  (`"32MiB"`, as JSON needs it) or from a variable (`"${RPM}"`) it is read as a number.
- Truth values are `true` and `false`.

## Limits

0 means that nothing passes, an absent limit that there is none; negative numbers, NaN and infinity
are errors. An amount below 1 is one in a longer window: `rpm: 0.5` is exactly one request in two
minutes. From 1 on, amounts are whole. The largest is 2^63-1.

`rules` stand over `limits`, those over the quota's, those over what the provider's headers say, and
those over the defaults of its kind. A rule replaces the shorthand of the same unit and window;
`{unit: requests, per: 60s, off: true}` removes it. Where `enforce` or `count` is left out, the kind
decides: for every kind of this version `enforce: unknown`, which is kept safe under sliding, fixed
and bucket alike, and `count: reserve`, input and `max_tokens` at admission, never given back;
refused attempts and cached input count. That is how OpenAI counts as far as it says, and else the
safest reading. The limits of the organisation, tenants, teams, keys, models and classes are ours:
sliding, reserved at admission and corrected to what was really used.

## Defaults

- Without `classes` there are interactive (weight 8, 30 s), standard (weight 4, 30 s) and batch
  (weight 1, 20 m). A call that names no class is `standard` if there is such a class, else of the
  last one.
- A provider of kind openai whose `api_key` expands to nothing is off, with its deployments. A model
  none of whose deployments is on is treated as if it were not in the file: 404, or the model `"*"`.
- `mode` of a tenant holds for its teams and keys unless they say otherwise.
- A key with `expires: 2027-01-31` works through that day (UTC).
)";

}  // namespace

std::string json_schema() {
  std::string out =
      "{\n"
      "  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n"
      "  \"title\": \"weir configuration\",\n"
      "  \"$ref\": \"#/$defs/configuration\",\n"
      "  \"$defs\": {\n";
  const auto pattern = [](std::string_view expression) {
    return fmt::format("{{\"type\": \"string\", \"pattern\": {}}}", json_text(expression));
  };
  const auto or_variable = [](const std::string& first, const std::string& second) {
    return fmt::format("{{\"anyOf\": [{}, {}, {}]}}", first, second, reference("_variable"));
  };
  const std::string number = R"({"type": "number", "minimum": 0})";
  const std::string whole = R"({"type": "integer", "minimum": 0})";
  const std::string never = R"({"not": {}})";
  const std::pair<std::string_view, std::string> scalars[] = {
      {"_variable", pattern("\\$\\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\\}")},
      {"_text", R"({"type": ["string", "number", "boolean"]})"},
      {"_boolean", or_variable(R"({"type": "boolean"})", never)},
      {"_count", or_variable(whole, pattern("^[0-9.]+[kMG]$"))},
      {"_allowance", or_variable(number, pattern("^[0-9.]+[kMG]$"))},
      {"_bytes", or_variable(whole, pattern("^[0-9.]+([kMG]|[KMG]iB)$"))},
      {"_duration", or_variable(R"({"const": 0})", pattern("^[0-9.]+(ms|s|m|h|d)$"))},
      {"_percent", or_variable(pattern("^[0-9.]+%$"), never)},
      {"_decimal", or_variable(number, never)},
      {"_rate", or_variable(pattern("^[0-9.]+%?/(ms|s|m|h|d)$"), never)}};
  for (const auto& [name, text] : scalars) {
    out += fmt::format("    {}: {},\n", json_text(name), text);
  }
  std::string records;
  for (const Record* record : all_records()) {
    records += fmt::format("{}{}", records.empty() ? "" : ",\n", record_schema(*record));
  }
  return out + records + "\n  }\n}\n";
}

std::string configuration_markdown() {
  return std::string(kHead) + "\n## Keys\n" + tables_markdown(schema());
}

std::string tables_markdown(const Record& root) {
  std::string out;
  for (const Record* record : all_records(root)) {
    out += fmt::format("\n### {}\n\n{}.\n\n", title_of(*record), record->doc);
    out += "| key | value | default | meaning |\n| --- | --- | --- | --- |\n";
    for (const Field& field : record->fields) out += field_row(field);
  }
  return out;
}

}  // namespace weir::config
