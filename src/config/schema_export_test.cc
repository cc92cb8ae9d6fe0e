// SPDX-License-Identifier: Apache-2.0
#include "config/schema_export.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "config/quantity.h"
#include "config/schema.h"
#include "config/yaml_tree.h"

namespace weir::config {
namespace {

std::string file(const std::string& name) {
  std::ifstream in(std::string(WEIR_SOURCE_DIR "/") + name);
  std::stringstream all;
  all << in.rdbuf();
  return all.str();
}

TEST(SchemaExport, TheJsonSchemaIsUpToDate) {
  EXPECT_EQ(json_schema(), file("config/weir.schema.json"))
      << "write it again: weir docs schema > config/weir.schema.json";
}

TEST(SchemaExport, TheReferencePageIsUpToDate) {
  EXPECT_EQ(configuration_markdown(), file("docs/reference/configuration.md"))
      << "write it again: weir docs configuration > docs/reference/configuration.md";
}

TEST(SchemaExport, TheJsonSchemaIsJson) {
  Faults faults("schema");
  ASSERT_NE(parse_yaml(json_schema(), faults), nullptr);
  EXPECT_TRUE(faults.empty());
}

void each_record(const Record& record, std::set<std::string_view>& seen) {
  if (!seen.insert(record.name).second) return;
  for (const Field& field : record.fields) {
    const std::string at = std::string(record.name) + "." + std::string(field.key);
    EXPECT_FALSE(field.doc.empty()) << at;
    EXPECT_FALSE(field.doc.ends_with('.')) << at << ": the page adds the full stop";
    const bool nested =
        field.type == Type::record || field.type == Type::records || field.type == Type::named;
    EXPECT_EQ(nested, field.record != nullptr) << at;
    EXPECT_EQ(field.type == Type::choice || field.type == Type::choices, !field.choices.empty())
        << at;
    // Readers rely on these defaults; a default that does not parse would be none.
    const bool word = !field.words.empty();
    if (field.type == Type::duration && !field.fallback.empty() && !word) {
      EXPECT_TRUE(parse_duration(field.fallback)) << at;
    }
    if (field.type == Type::count && !field.fallback.empty() && !word) {
      EXPECT_TRUE(parse_count(field.fallback)) << at;
    }
    if (field.type == Type::bytes) {
      EXPECT_TRUE(parse_bytes(field.fallback)) << at;
    }
    if (field.record != nullptr) each_record(*field.record, seen);
  }
}

TEST(SchemaExport, TheTableIsConsistent) {
  std::set<std::string_view> seen;
  each_record(schema(), seen);
  EXPECT_GT(seen.size(), 20U);
}

}  // namespace
}  // namespace weir::config
