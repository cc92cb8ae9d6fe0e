// SPDX-License-Identifier: Apache-2.0
#include "stores/file/state_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace weir::stores {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

class StateFiles : public ::testing::Test {
 protected:
  StateFiles() {
    std::string pattern = (std::filesystem::temp_directory_path() / "weir-state-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ + "/state";
  }
  ~StateFiles() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<StateFile> open() {
    auto file = StateFile::open(path_);
    EXPECT_TRUE(file) << file.error().text;
    return std::move(*file);
  }
  void put(std::string_view text) const { std::ofstream(path_, std::ios::binary) << text; }
  static std::string text_of(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }

  static WrittenMemory memory() {
    WrittenMemory written;
    written.written = {WallTime(hours(500'000)), "one", seconds(100)};
    RememberedMeter meter;
    meter.name = "node|tenant|acme|requests|86400s";
    meter.counted = true;
    meter.charges = {{seconds(5), 3}};
    written.memory.meters.push_back(meter);
    return written;
  }
  static Moment later(Duration by) {
    return {WallTime(hours(500'000)) + by, "one", seconds(100) + by};
  }

  std::string folder_;
  std::string path_;
};

TEST_F(StateFiles, NoFileIsAnOrdinaryStart) {
  const auto found = open()->read(later(seconds(0)));
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->memory);
  EXPECT_TRUE(found->trouble.empty());
}

TEST_F(StateFiles, WhatIsWrittenIsReadWithItsAge) {
  ASSERT_TRUE(open()->write(memory()));
  const auto found = open()->read(later(seconds(7)));
  ASSERT_TRUE(found);
  ASSERT_TRUE(found->memory);
  EXPECT_EQ(found->memory->meters[0].charges[0].amount, 3);
  EXPECT_EQ(found->age.at_least, seconds(7));
  EXPECT_EQ(found->age.at_most, seconds(7));
  EXPECT_FALSE(found->age.complete);
  struct stat seen{};
  ASSERT_EQ(stat(path_.c_str(), &seen), 0);
  EXPECT_EQ(seen.st_mode & 0777U, 0600U);
  EXPECT_FALSE(std::filesystem::exists(path_ + ".tmp"));
}

TEST_F(StateFiles, DamagedOnesArePutAsideWithTheirPlace) {
  ASSERT_TRUE(open()->write(memory()));
  const std::string good = text_of(path_);
  std::string other_version = good;
  other_version.replace(other_version.find("\"version\":1"), 11, "\"version\":9");
  for (const std::string& bad :
       {std::string(), std::string("{"), std::string(1000, '\0'), good.substr(0, good.size() / 2),
        other_version, std::string("[1,2,3]")}) {
    put(bad);
    const auto found = open()->read(later(seconds(1)));
    ASSERT_TRUE(found) << found.error().text;
    EXPECT_FALSE(found->memory);
    EXPECT_TRUE(found->put_aside);
    EXPECT_NE(found->trouble.find(path_ + ".bad"), std::string::npos) << found->trouble;
    EXPECT_FALSE(std::filesystem::exists(path_));
    EXPECT_EQ(text_of(path_ + ".bad"), bad);
  }
}

TEST_F(StateFiles, OnlyOneProcessAtATime) {
  auto first = open();
  const auto second = StateFile::open(path_);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().text.find("in use by another weir process"), std::string::npos);
  EXPECT_NE(second.error().text.find(path_), std::string::npos);
  first.reset();
  EXPECT_TRUE(StateFile::open(path_));
}

TEST_F(StateFiles, PathsThatCannotBeAreNamed) {
  const auto fault = [](const std::string& path) {
    const auto checked = check_state_path(path);
    const auto opened = StateFile::open(path);
    EXPECT_FALSE(opened);
    return checked ? std::string() : checked.error().text;
  };
  EXPECT_NE(fault(folder_).find("is not a file"), std::string::npos);
  EXPECT_NE(fault(folder_ + "/none/state").find(folder_ + "/none"), std::string::npos);
  put("x");
  EXPECT_NE(fault(path_ + "/state").find(path_), std::string::npos);
}

TEST_F(StateFiles, AWriteThatFailsLeavesTheOldFile) {
  auto file = open();
  ASSERT_TRUE(file->write(memory()));
  const std::string before = text_of(path_);
  // A folder where the new text should stand first: nobody can write there, root included.
  std::filesystem::create_directory(path_ + ".tmp");
  const auto written = file->write(memory());
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().text.find(path_), std::string::npos);
  EXPECT_EQ(text_of(path_), before);
  std::filesystem::remove(path_ + ".tmp");
  EXPECT_TRUE(file->write(memory()));
}

TEST_F(StateFiles, ALinkIsFollowed) {
  std::filesystem::create_directory(folder_ + "/there");
  std::filesystem::create_symlink(folder_ + "/there/real", path_);
  ASSERT_TRUE(open()->write(memory()));
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
  EXPECT_TRUE(std::filesystem::is_regular_file(folder_ + "/there/real"));
}

TEST_F(StateFiles, AFileFromTheFutureIsTakenAsJustWritten) {
  ASSERT_TRUE(open()->write(memory()));
  Moment now = later(-hours(3));
  now.boot = "two";
  const auto found = open()->read(now);
  ASSERT_TRUE(found);
  ASSERT_TRUE(found->memory);
  EXPECT_EQ(found->age.at_least, seconds(0));
  EXPECT_EQ(found->age.at_most, hours(24));
  EXPECT_NE(found->trouble.find("10800 s in the future"), std::string::npos) << found->trouble;
}

TEST(MemoryAges, AreOfTheClockThatCanBeTrusted) {
  const Moment written{WallTime(hours(1000)), "one", hours(5)};
  const auto age = [&](Duration wall, std::string boot, Duration since) {
    return age_between(written, {WallTime(hours(1000)) + wall, std::move(boot), since}, true);
  };
  // The same start of the machine: however the calendar was put.
  for (const Duration wall : {Duration(-hours(900)), Duration{0}, Duration(hours(90'000))}) {
    EXPECT_EQ(age(wall, "one", hours(6)).at_least, hours(1));
    EXPECT_EQ(age(wall, "one", hours(6)).at_most, hours(1));
  }
  // Another one: the calendar's.
  EXPECT_EQ(age(hours(2), "two", seconds(9)).at_least, hours(2));
  EXPECT_EQ(age(hours(2), "two", seconds(9)).at_most, hours(2));
  EXPECT_EQ(age(hours(2), "", seconds(9)).at_most, hours(2));
  // A little early: clocks are put right. Far too early: not known.
  EXPECT_EQ(age(-seconds(30), "two", seconds(9)).at_most, seconds(0));
  EXPECT_EQ(age(-hours(30), "two", seconds(9)).at_least, seconds(0));
  EXPECT_EQ(age(-hours(30), "two", seconds(9)).at_most, hours(24));
  EXPECT_EQ(age_between({WallTime::max(), "", {}}, {WallTime::min(), "", {}}, true).at_least,
            seconds(0));
}

}  // namespace
}  // namespace weir::stores
