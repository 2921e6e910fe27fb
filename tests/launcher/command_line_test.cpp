// Command lines: own options, configuration keys, --help, and what is refused.
#include "launcher/command_line.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "launcher/option_table.h"

namespace fivefold {
namespace {

const std::vector<ArgumentSpec>& own() {
  static const std::vector<ArgumentSpec> specs{
      {"--reference", "DIR", "folder of a stored trajectory"},
      {"--explain-grads", "", "print over which ranks each gradient is summed"}};
  return specs;
}

CommandLine parse(const std::vector<std::string>& args) { return parse_command_line(args, own()); }

std::string refusal(const std::vector<std::string>& args) {
  try {
    parse(args);
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

void expect_words(const std::string& message, const std::vector<std::string>& words) {
  for (const auto& word : words)
    EXPECT_NE(message.find(word), std::string::npos) << word << " in: " << message;
}

TEST(CommandLine, OptionsAndSettingsInAnyOrder) {
  const auto line = parse({"--ranks=4", "--parallel.tp", "2", "--reference", "dir.x", "--train.micro_batch=8",
                           "--explain-grads"});
  EXPECT_EQ(line.ranks(), 4);
  EXPECT_EQ(line.own.text("--reference"), "dir.x");
  EXPECT_TRUE(line.own.has("--explain-grads"));
  ASSERT_EQ(line.settings.size(), 2u);
  EXPECT_EQ(line.settings[0].name, "parallel.tp");
  EXPECT_EQ(line.settings[0].value, "2");
  EXPECT_EQ(line.settings[1].value, "8");
  EXPECT_EQ(line.settings[1].origin, "command line");
}

TEST(CommandLine, EmptyAndOddValuesArrive) {
  const auto line =
      parse({"--data.valid=", "--run.name=a=b", "--optimizer.lr", "-1", "--reference", "--odd.name"});
  ASSERT_EQ(line.settings.size(), 3u);
  EXPECT_EQ(line.settings[0].value, "");
  EXPECT_EQ(line.settings[1].value, "a=b");
  EXPECT_EQ(line.settings[2].value, "-1");
  EXPECT_EQ(line.own.text("--reference"), "--odd.name");
}

TEST(CommandLine, LaterSettingsWinAndTheFileComesFirst) {
  const auto path = testing::TempDir() + str("fivefold_command_line_", getpid(), ".conf");
  std::ofstream(path) << "[train]\nthreads = 3\nmicro_batch = 5\n";
  const auto line = parse({"--train.threads=1", "--train.threads=2", "--config", path});
  std::filesystem::remove(path);
  const auto resolved = resolve(line.settings);
  EXPECT_EQ(resolved.config.train.threads, 2);
  EXPECT_EQ(resolved.config.train.micro_batch, 5);
  EXPECT_EQ(resolved.origins.at("train.micro_batch"), path);
}

TEST(CommandLine, UnknownNamesNameTheNearest) {
  expect_words(refusal({"--rank=4"}), {"'--rank'", "'--ranks'"});
  expect_words(refusal({"--train.micro_bach=4"}), {"'train.micro_bach'", "'train.micro_batch'"});
  expect_words(refusal({"--tp=4"}), {"'--tp'", "'--parallel.tp'"});
  expect_words(refusal({"-tp"}), {"'-tp'", "'--parallel.tp'"});
  expect_words(refusal({"--confg=x"}), {"'--config'"});
  expect_words(refusal({"--explain"}), {"'--explain'", "'--explain-grads'"});  // no guessing
}

TEST(CommandLine, MissingValuesAndStrayWordsAreRefused) {
  expect_words(refusal({"--ranks"}), {"--ranks", "value"});
  expect_words(refusal({"--train.threads"}), {"--train.threads=VALUE"});
  expect_words(refusal({"run.conf"}), {"'run.conf'"});
  expect_words(refusal({"--explain-grads=yes"}), {"--explain-grads", "no value"});
  expect_words(refusal({"--ranks=1", "--ranks=2"}), {"--ranks", "twice"});
}

TEST(Help, ListsOptionsAndEveryKey) {
  const auto help = command_help("usage: fivefold parity", own());
  expect_words(
      help, {"usage: fivefold parity", "--config FILE", "--ranks N", "--reference DIR", "--explain-grads"});
  for (const auto& section : option_table())
    for (const auto& option : section.options) expect_words(help, {"--" + option.name()});
}

TEST(Help, ShowsDefaultsAndChoices) {
  expect_words(command_help("", {}),
               {"[0.0003]", "gpipe, 1f1b, interleaved, zb-h1 or zb-v", "--checkpoint.staging SIZE"});
}

TEST(Help, LimitsItselfToASection) {
  const auto line = parse({"--help", "parallel"});
  EXPECT_TRUE(line.own.has("--help"));
  const auto help = command_help("", own(), line);
  expect_words(help, {"--parallel.tp N"});
  EXPECT_EQ(help.find("--train."), std::string::npos);
  expect_words(refusal({"--help", "paralel"}), {"'paralel'"});
}

TEST(Help, NeedsNoReadableFile) { EXPECT_TRUE(parse({"--config=no/such/file", "-h"}).own.has("--help")); }

}  // namespace
}  // namespace fivefold
