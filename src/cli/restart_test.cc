// SPDX-License-Identifier: Apache-2.0
#include "cli/restart.h"

#include <gtest/gtest.h>

namespace weir::cli {
namespace {

TEST(Restart, WhatNeedsOneIsNamedAndStaysAsItWas) {
  config::Config in_force;
  in_force.server.listen = {{.host = "127.0.0.1", .port = 8080, .unix_path = {}}};
  in_force.admin.listen = {{.host = "127.0.0.1", .port = 8081, .unix_path = {}}};
  config::Config wanted = in_force;
  EXPECT_EQ(keep_until_restart(in_force, wanted), "");
  wanted.server.listen[0].port = 9090;
  wanted.server.threads = 7;
  wanted.server.connections = 5;
  wanted.server.sync_wait = std::chrono::seconds(3);
  wanted.admin.listen.clear();
  wanted.state_file = "/other";
  EXPECT_EQ(keep_until_restart(in_force, wanted),
            "server.listen, server.threads, server.limits.connections, admin.listen, "
            "stores.state");
  EXPECT_EQ(wanted.state_file, "");
  EXPECT_EQ(wanted.server.listen[0].port, 8080);
  EXPECT_EQ(wanted.server.threads, in_force.server.threads);
  EXPECT_EQ(wanted.admin.listen.size(), 1U);
  EXPECT_EQ(wanted.server.sync_wait, std::chrono::seconds(3)) << "this one needs none";
}

TEST(Restart, ATokenThatIsTakenOutIsNamed) {
  config::Config in_force;
  in_force.admin.token = config::Secret("one");
  config::Config wanted;
  EXPECT_EQ(keep_until_restart(in_force, wanted), "admin.token");
  EXPECT_EQ(wanted.admin.token.reveal(), "one");
  wanted.admin.token = config::Secret("two");
  EXPECT_EQ(keep_until_restart(in_force, wanted), "") << "another token takes effect at once";
}

}  // namespace
}  // namespace weir::cli
