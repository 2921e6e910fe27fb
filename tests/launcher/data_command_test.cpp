// fivefold data: build, info, trace as a user calls them.
#include "launcher/data_command.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "core/error.h"

namespace fivefold {
namespace {

class DataCommand : public testing::Test {
 protected:
  DataCommand() {
    auto pattern = testing::TempDir() + "fivefold-data-command-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~DataCommand() override { std::filesystem::remove_all(folder_); }

  std::string input(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name) << text;
    return folder_ + "/" + name;
  }
  std::string output_of(const std::vector<std::string>& args) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(data_command(args), 0);
    return testing::internal::GetCapturedStdout();
  }
  static std::string refusal_of(const std::vector<std::string>& args) {
    try {
      data_command(args);
    } catch (const UserError& error) {
      return error.what();
    }
    ADD_FAILURE() << "no UserError";
    return "";
  }
  static bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }

  std::string folder_;
};

TEST_F(DataCommand, BuildsAndDescribesAFile) {
  const auto text = input("a.txt", "one\n\ntwo\n\n\n\nthree");
  const auto out = folder_ + "/a.tokens";
  const auto built = output_of({"build", "--out", out, "--separator", "\\n\\n", text});
  EXPECT_TRUE(contains(built, out + ": 14 tokens in 3 documents, hash ")) << built;
  EXPECT_TRUE(contains(built, "1 empty documents were skipped")) << built;
  const auto info = output_of({"info", out, "--check"});
  EXPECT_TRUE(contains(
      info,
      "format     fivefold, 1 bytes a token\ntokens     14\ndocuments  3\nvocabulary 257\ntokenizer  byte"))
      << info;
  EXPECT_TRUE(contains(info, "begins     onetwothree\n")) << info;
  EXPECT_TRUE(contains(info, "check      every id")) << info;
}

TEST_F(DataCommand, HoldsOutAPart) {
  std::string lines;
  for (int i = 0; i < 200; ++i) lines += "{\"text\": \"line " + std::to_string(i) + "\"}\n";
  const auto out = folder_ + "/a.tokens", valid = folder_ + "/v.tokens";
  const auto built = output_of(
      {"build", "--out=" + out, "--valid-out=" + valid, "--valid-fraction=0.2", input("a.jsonl", lines)});
  EXPECT_TRUE(contains(built, out + ": ") && contains(built, valid + ": ")) << built;
}

// B77: the trace of step N is what the run reads in its N-th step, whichever step comes first.
TEST_F(DataCommand, TracesAStep) {
  const auto out = folder_ + "/a.tokens";
  output_of({"build", "--out", out, "--separator", "\\n", input("a.txt", "abc\nde\nfghij\nklmnopq")});
  const std::vector<std::string> common = {"trace", "--data",         out, "--sequence", "5", "--seed",
                                           "3",     "--global-batch", "2", "--step"};
  auto first = common, second = common;
  first.push_back("1");
  second.push_back("2");
  EXPECT_TRUE(contains(output_of(first), "sample 0: epoch 0, source 0"));
  const auto text = output_of(second);
  EXPECT_TRUE(contains(text, "sample 2: epoch 0") && contains(text, "sample 3: epoch 0")) << text;
  EXPECT_TRUE(contains(text, "  document "));
}

TEST_F(DataCommand, HelpListsEveryOption) {
  const auto help = output_of({"--help"});
  for (const char* option :
       {"--out", "--separator", "--valid-fraction", "--check", "--global-batch", "--step"})
    EXPECT_TRUE(contains(help, option)) << option;
  EXPECT_EQ(output_of({"build", "--help"}), help);
}

TEST_F(DataCommand, WrongUsageNamesTheNearest) {
  EXPECT_TRUE(contains(refusal_of({"biuld"}), "the nearest is 'build'"));
  EXPECT_TRUE(contains(refusal_of({}), "build, info or trace"));
  EXPECT_TRUE(contains(refusal_of({"build", "--seperator", "x"}),
                       "unknown option '--seperator'; the nearest is '--separator'"));
  EXPECT_TRUE(contains(refusal_of({"build", "--out"}), "needs a value"));
  EXPECT_TRUE(contains(refusal_of({"build", "--out", "a", "--out", "b"}), "given twice"));
  EXPECT_TRUE(contains(refusal_of({"build", "--valid-fraction", "much", "x.txt"}), "must be a number"));
  EXPECT_TRUE(contains(refusal_of({"build", "--hold-out", "tial", "x.txt"}), "the nearest is 'tail'"));
  EXPECT_TRUE(contains(refusal_of({"info"}), "one token file"));
  EXPECT_TRUE(contains(refusal_of({"info", "x", "--check=yes"}), "takes no value"));
  EXPECT_TRUE(contains(refusal_of({"trace", "--data", "x"}), "'--sequence' must be given"));
  EXPECT_TRUE(contains(refusal_of({"trace", "--sequence", "0"}), "at least 1, not '0'"));
  EXPECT_TRUE(contains(refusal_of({"trace", "--sequence", "4", "--global-batch", "2", "--step", "1"}),
                       "at least one token file"));
}

}  // namespace
}  // namespace fivefold
