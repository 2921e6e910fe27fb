// One file a logger, levels, appending, and loggers of rank threads that keep apart.
#include "core/log.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>
#include <vector>

namespace fivefold {
namespace {

class LogTest : public testing::Test {
 protected:
  LogTest() : folder_(testing::TempDir() + str("fivefold_log_", getpid(), "/")) {}
  ~LogTest() override { std::filesystem::remove_all(folder_); }
  std::string path(int rank) const { return str(folder_, "log/rank_0000", rank, ".log"); }
  static std::vector<std::string> lines(const std::string& path) {
    std::ifstream in(path);
    std::vector<std::string> found;
    for (std::string line; std::getline(in, line);) found.push_back(line);
    return found;
  }
  // Digits become d.
  static std::string shape_of(std::string text) {
    for (auto& c : text)
      if (c >= '0' && c <= '9') c = 'd';
    return text;
  }
  std::string folder_;
};

TEST_F(LogTest, LinesCarryTimeRankAndLevel) {
  {
    const Log log({.world_rank = 3, .console = false, .file = path(3)});
    log.info("step ", 1, " loss ", 2.5);
    log.warn("slow");
    log.error("gone");
  }
  const auto found = lines(path(3));
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(shape_of(found[0].substr(0, 19)), "dddd-dd-dd dd:dd:dd");
  EXPECT_EQ(found[0].substr(19), " [3] step 1 loss 2.5");
  EXPECT_TRUE(found[1].ends_with("[3] warn: slow")) << found[1];
  EXPECT_TRUE(found[2].ends_with("[3] error: gone")) << found[2];
}

TEST_F(LogTest, LevelDropsWhatIsLessSevere) {
  const Log log({.level = LogLevel::warn, .console = false, .file = path(0)});
  log.debug("a");
  log.info("b");
  log.warn("c");
  EXPECT_EQ(lines(path(0)).size(), 1u);  // written before the logger goes: a killed process loses nothing
}

// B93: a restarted run goes on in the same file.
TEST_F(LogTest, FilesAreAppendedTo) {
  for (int start = 0; start < 2; ++start) Log({.console = false, .file = path(0)}).info("start ", start);
  EXPECT_EQ(lines(path(0)).size(), 2u);
}

TEST_F(LogTest, RankThreadsKeepTheirLinesApartAndWhole) {
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 4; ++rank)
    ranks.emplace_back([this, rank] {
      const Log log({.world_rank = rank, .console = false, .file = path(rank)});
      for (int i = 0; i < 50; ++i) log.info("rank ", rank, " line ", i, " end");
    });
  for (auto& rank : ranks) rank.join();
  for (int rank = 0; rank < 4; ++rank) {
    const auto found = lines(path(rank));
    ASSERT_EQ(found.size(), 50u);
    for (int i = 0; i < 50; ++i)
      EXPECT_TRUE(
          found[static_cast<std::size_t>(i)].ends_with(str("[", rank, "] rank ", rank, " line ", i, " end")));
  }
}

TEST_F(LogTest, OnlyRankZeroSpeaksOnTheConsole) {
  std::ostringstream console;
  auto* before = std::clog.rdbuf(console.rdbuf());
  for (int rank = 0; rank < 2; ++rank) Log({.world_rank = rank}).info("hello from ", rank);
  Log({.console = false}).info("silent");
  std::clog.rdbuf(before);
  EXPECT_NE(console.str().find("[0] hello from 0"), std::string::npos) << console.str();
  EXPECT_EQ(console.str().find("hello from 1"), std::string::npos) << console.str();
  EXPECT_EQ(console.str().find("silent"), std::string::npos) << console.str();
}

TEST_F(LogTest, AFileThatCannotBeMadeIsTheUsersError) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ + "plain") << "x";
  EXPECT_THROW(Log({.console = false, .file = folder_ + "plain/rank.log"}), UserError);
}

TEST_F(LogTest, LevelsByName) {
  EXPECT_EQ(log_level_from("warn"), LogLevel::warn);
  try {
    log_level_from("wran");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("'warn'"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace fivefold
