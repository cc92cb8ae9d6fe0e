// SPDX-License-Identifier: Apache-2.0
#include "cli/load.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace weir::cli {
namespace {

load::Workload clients(const std::string& key) {
  load::Workload workload;
  workload.clients = {{.name = "a", .traffic_class = "", .key = key, .share = 1},
                      {.name = "b", .traffic_class = "", .key = key, .share = 1}};
  return workload;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(LoadHint, SaysWhatKeysAreFor) {
  load::Report report;
  report.tenants.resize(2);
  EXPECT_TRUE(has(load_hint(clients(""), report), "auth: none"));
  EXPECT_EQ(load_hint(clients("weir-k"), report), "");
  report.reasons.push_back({.status = 401, .code = "invalid_api_key", .message = "", .calls = 3});
  EXPECT_TRUE(has(load_hint(clients(""), report), "clients[].key"));
  EXPECT_TRUE(has(load_hint(clients("weir-k"), report), "was not accepted"));
}

TEST(LoadHint, OneTenantNeedsNone) {
  load::Report report;
  report.tenants.resize(1);
  EXPECT_EQ(load_hint(clients(""), report), "");
}

}  // namespace
}  // namespace weir::cli
