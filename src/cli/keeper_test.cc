// SPDX-License-Identifier: Apache-2.0
#include "cli/keeper.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

namespace weir::cli {
namespace {

class Keeping : public ::testing::Test {
 protected:
  Keeping() {
    std::string pattern = (std::filesystem::temp_directory_path() / "weir-keeper-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ + "/state";
  }
  ~Keeping() override { std::filesystem::remove_all(folder_); }

  Result<std::unique_ptr<Keeper>> start(Duration every = std::chrono::hours(1)) {
    auto file = stores::StateFile::open(path_);
    if (!file) return fail(file.error());
    return Keeper::start({std::move(*file),
                          [this] {
                            Memory memory;
                            memory.revision = revision_;
                            return memory;
                          },
                          [] { return stores::Moment{}; }, *log_, writes_.with({"written"}),
                          writes_.with({"failed"}), every});
  }
  [[nodiscard]] std::string text() const {
    std::ostringstream all;
    all << std::ifstream(path_).rdbuf();
    return all.str();
  }
  /// Waits until so many writes have come to `outcome`.
  void await(std::string_view outcome, std::int64_t count) {
    auto& counter = writes_.with({outcome});
    for (int looks = 0; looks < 20'000'000 && counter.value() < count; ++looks) {
      std::this_thread::yield();
    }
    ASSERT_GE(counter.value(), count);
  }

  std::string folder_;
  std::string path_;
  std::atomic<std::uint64_t> revision_ = 1;
  std::mutex mutex_;
  std::vector<std::string> lines_;
  std::unique_ptr<telemetry::Log> log_ = telemetry::Log::to(
      [this](std::string_view line) {
        const std::lock_guard lock(mutex_);
        lines_.emplace_back(line);
      },
      telemetry::LogLevel::info);
  telemetry::Registry registry_;
  telemetry::Family<telemetry::Counter>& writes_ =
      registry_.counter("writes_total", "Writes.", {"outcome"});
};

TEST_F(Keeping, WritesAtTheStartAndAtTheEnd) {
  auto keeper = start();
  ASSERT_TRUE(keeper) << keeper.error().text;
  EXPECT_NE(text().find("\"complete\":false"), std::string::npos) << text();
  (*keeper)->finish(true);
  EXPECT_NE(text().find("\"complete\":true"), std::string::npos);
  EXPECT_EQ(writes_.with({"written"}).value(), 2);
  EXPECT_TRUE(lines_.empty());
}

TEST_F(Keeping, WritesWhatChangedOnly) {
  std::atomic<int> taken = 0;
  auto file = stores::StateFile::open(path_);
  ASSERT_TRUE(file);
  auto keeper = Keeper::start({std::move(*file),
                               [&] {
                                 ++taken;
                                 Memory memory;
                                 memory.revision = revision_;
                                 return memory;
                               },
                               [] { return stores::Moment{}; }, *log_, writes_.with({"written"}),
                               writes_.with({"failed"}), std::chrono::milliseconds(1)});
  ASSERT_TRUE(keeper);
  while (taken < 5) std::this_thread::yield();
  EXPECT_EQ(writes_.with({"written"}).value(), 1);
  revision_ = 2;
  await("written", 2);
}

TEST_F(Keeping, WhatCannotBeWrittenIsToldOnceAndTriedAgain) {
  auto keeper = start(std::chrono::milliseconds(1));
  ASSERT_TRUE(keeper);
  // A folder stands where the new text should.
  std::filesystem::create_directory(path_ + ".tmp");
  revision_ = 2;
  await("failed", 5);
  std::filesystem::remove(path_ + ".tmp");
  await("written", 2);
  (*keeper)->finish(true);
  ASSERT_EQ(lines_.size(), 2U);
  EXPECT_NE(lines_[0].find("state_not_written"), std::string::npos) << lines_[0];
  EXPECT_NE(lines_[0].find(path_), std::string::npos);
  EXPECT_NE(lines_[1].find("state_written_again"), std::string::npos) << lines_[1];
}

TEST_F(Keeping, AFirstWriteThatFailsIsAnError) {
  std::filesystem::create_directory(path_ + ".tmp");
  const auto keeper = start();
  ASSERT_FALSE(keeper);
  EXPECT_NE(keeper.error().text.find(path_ + ".tmp"), std::string::npos) << keeper.error().text;
}

}  // namespace
}  // namespace weir::cli
