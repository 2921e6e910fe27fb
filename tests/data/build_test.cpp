// Text into token files: documents of every kind, the held-out part, errors, bounded memory.
#include "data/build.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>
#include <utility>

#include "core/philox.h"
#include "data/documents.h"
#include "data/tokenizer.h"
#include "tests/data/data_testing.h"

namespace fivefold {
namespace {

// The texts of a file's documents, without their end.
std::vector<std::string> documents_of(const std::string& path) {
  const auto file = open_token_file(path);
  const auto ids = read_all(*file);
  std::vector<std::string> texts;
  for (std::int64_t d = 0; d < file->documents(); ++d) {
    const auto begin = ids.begin() + file->document_begin(d), end = ids.begin() + file->document_begin(d + 1);
    EXPECT_EQ(*(end - 1), 256);
    texts.push_back(make_tokenizer("byte")->decode(Ids(begin, end - 1)));
  }
  return texts;
}

class Build : public testing::Test {
 protected:
  std::string input(const std::string& name, const std::string& text) {
    write_text(folder_ / name, text);
    return folder_ / name;
  }
  BuildOptions options(std::vector<std::string> inputs, const std::string& separator = "") {
    BuildOptions built;
    built.inputs = std::move(inputs);
    built.out = folder_ / "out.tokens";
    built.separator = separator;
    return built;
  }
  std::vector<std::string> built(const BuildOptions& given) {
    report_ = build_tokens(given);
    open_token_file(given.out)->check();
    return documents_of(given.out);
  }
  using Texts = std::vector<std::string>;

  TempFolder folder_;
  BuildReport report_;
};

TEST_F(Build, OneDocumentAFileInOrder) {
  const auto texts = built(options({input("b.txt", "second\n"), input("a.txt", "first")}));
  EXPECT_EQ(texts, (Texts{"second\n", "first"}));
  EXPECT_EQ(report_.train.documents, 2);
  EXPECT_EQ(report_.train.tokens, 7 + 1 + 5 + 1);
  EXPECT_EQ(report_.bytes_read, 12);
  const auto file = open_token_file(folder_ / "out.tokens");
  EXPECT_EQ(file->info().tokenizer, "byte");
  EXPECT_EQ(file->info().vocab, 257);
  EXPECT_EQ(file->info().tokenizer_hash, make_tokenizer("byte")->hash());
}

TEST_F(Build, EveryByteSurvives) {
  std::string bytes;
  for (int c = 0; c < 256; ++c) bytes += static_cast<char>(c);
  bytes += "\xff\xfe\xc3(\xf0\x9f";  // no valid UTF-8
  EXPECT_EQ(built(options({input("a.txt", bytes)})), Texts{bytes});
}

TEST_F(Build, SeparatorsSplitAndEmptyDocumentsAreSkipped) {
  EXPECT_EQ(built(options({input("a.txt", "one||two||||three||"), input("b.txt", "four")}, "||")),
            (Texts{"one", "two", "three", "four"}));
  EXPECT_EQ(report_.empty_documents, 1);
  EXPECT_EQ(built(options({input("a.txt", "||a|"), input("e.txt", "")}, "||")), (Texts{"a|"}));
  EXPECT_EQ(report_.empty_documents, 2);  // before the first separator, and the empty file
}

TEST_F(Build, EmptyFilesAreSkipped) {
  EXPECT_EQ(built(options({input("e.txt", ""), input("a.txt", "x"), input("f.txt", "")})), Texts{"x"});
  EXPECT_EQ(report_.empty_documents, 2);
}

// Documents of all sizes, and false starts of separators.
TEST_F(Build, SeparatorsSplitLongTexts) {
  for (const std::string& separator : Texts{"\n", "<|end|>", std::string(1000, '=')}) {
    std::string text;
    Texts expected;
    for (std::uint64_t d = 0; text.size() < 1500000; ++d) {
      const auto word = philox(1, d, 0);
      std::string document(word[0] % 9 == 0 ? word[1] % 200000 : 1 + word[1] % 300,
                           static_cast<char>('a' + d % 26));
      if (document.size() > 2 && separator.size() > 1) document[document.size() / 2] = separator[0];
      if (!document.empty()) expected.push_back(document);
      text += document + separator;
    }
    EXPECT_TRUE(built(options({input("a.txt", text)}, separator)) == expected) << separator.size();
  }
}

class CollectingSink final : public DocumentSink {
 public:
  void text(std::string_view piece) override { open_ += piece; }
  void end_document() override { documents.push_back(std::exchange(open_, "")); }
  std::vector<std::string> documents;

 private:
  std::string open_;
};

constexpr std::size_t kReadBytes =
    256 << 10;  // the reader's buffer: what lies across a multiple of it comes in two parts

TEST_F(Build, SeparatorsAreFoundAcrossBuffers) {
  const std::string separator = "<|end|>";
  for (std::size_t before = 0; before <= separator.size(); ++before) {
    const std::string first(kReadBytes - before, 'x'), second = "<|en|><|en";
    CollectingSink sink;
    read_text_documents(input("a.txt", first + separator + second), separator, sink);
    EXPECT_TRUE(sink.documents == (Texts{first, second})) << before;
  }
}

TEST_F(Build, EscapesAreReadAcrossBuffers) {
  const std::string head = "{\"text\": \"", escapes = "\\ud83d\\ude00\\n\\ud800\\u0041";
  for (std::size_t before = 0; before <= escapes.size(); ++before) {
    const std::string plain(kReadBytes - head.size() - before, 'x');
    CollectingSink sink;
    read_json_documents(input("a.jsonl", head + plain + escapes + "\"}"), sink);
    EXPECT_TRUE(sink.documents == Texts{plain + "\xf0\x9f\x98\x80\n\xef\xbf\xbd"
                                                "A"})
        << before;
  }
}

TEST_F(Build, ReadsJsonLines) {
  const auto lines =
      "{\"text\": \"plain\"}\n"
      "\n"
      "  {\"id\": -1.5e3, \"nested\": {\"text\": [1, \"]}\", {\"a\": null}], \"b\": {}}, \"text\": "
      "\"two\\nlines\", \"t\": []}  \r\n"
      "{\"text\":\"\"}\n"
      "{\"text\": "
      "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20AC\\ud83d\\ude00\\ud800x\\ude00\\ud800\\u0041\"}";
  EXPECT_EQ(built(options({input("a.jsonl", lines)})),
            (Texts{"plain", "two\nlines",
                   "\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xef\xbf\xbdx\xef\xbf\xbd\xef\xbf\xbd"
                   "A"}));
  EXPECT_EQ(report_.empty_documents, 1);
}

TEST_F(Build, RefusesWrongJsonWithFileAndLine) {
  const auto refusal = [&](const std::string& line) {
    const auto given = options({input("x.jsonl", "{\"text\": \"fine\"}\n" + line + "\n")});
    return user_error_of([&] { build_tokens(given); });
  };
  for (const std::string line :
       {"[1]", "\"text\"", "{\"text\": 5}", "{\"txt\": \"a\"}", "{\"text\": \"a\"", "{\"text\": \"a",
        "{\"text\": \"\\x\"}", "{\"text\": \"\\u12g4\"}", "{\"text\": \"a\"} b",
        "{\"text\": \"a\", \"text\": \"b\"}", "{\"a\": tru, \"text\": \"b\"}",
        "{\"a\": [1 2], \"text\": \"b\"}", "{text: \"b\"}", "{\"a\": 1,}", "{\"a\" 1}",
        "{\"text\": \"tab\there\"}", "{\"text\": null}", "{\"a\": 1-x}", "{"}) {
    const auto sentence = refusal(line);
    EXPECT_TRUE(contains(sentence, "x.jsonl, line 2: ")) << line << " -> " << sentence;
  }
  EXPECT_TRUE(contains(refusal("{\"a\": " + std::string(1000, '[') + "}"), "deep"));
}

// Two bytes an id, a last odd byte alone: holds back a byte until it knows what follows.
class PairTokenizer final : public Tokenizer {
 public:
  std::string name() const override { return "pair"; }
  std::string hash() const override { return "0000000000000001"; }
  std::int64_t vocab_size() const override { return 65536 + 257; }
  std::int32_t end_of_document() const override { return 65536 + 256; }
  std::size_t encode_prefix(std::string_view text, bool last, Ids& ids) const override {
    const auto byte = [&](std::size_t i) {
      return static_cast<std::int32_t>(static_cast<unsigned char>(text[i]));
    };
    std::size_t i = 0;
    for (; i + 1 < text.size(); i += 2) ids.push_back(byte(i) * 256 + byte(i + 1));
    if (last && i < text.size()) ids.push_back(65536 + byte(i++));
    return i;
  }
  std::string decode(std::span<const std::int32_t>) const override { return ""; }
};

// A tokenizer sees a document as one stream, however the reader cuts it.
TEST_F(Build, TokenizersMayHoldTextBack) {
  const PairTokenizer tokenizer;
  std::string lines, escaped_text = "a\\nbc\\td", text = "a\nbc\td";  // pieces of odd sizes
  Ids expected;
  for (std::size_t size = 0; size < 9; ++size) {
    lines += "{\"text\": \"" + escaped_text + std::string(size, 'x') + "\"}\n";
    const auto ids = tokenizer.encode(text + std::string(size, 'x'));
    expected.insert(expected.end(), ids.begin(), ids.end());
    expected.push_back(tokenizer.end_of_document());
  }
  const auto given = options({input("a.jsonl", lines)});
  build_tokens(given, tokenizer);
  const auto file = open_token_file(given.out);
  EXPECT_EQ(read_all(*file), expected);
  EXPECT_EQ(file->info().token_bytes, 4);
  EXPECT_EQ(file->info().tokenizer, "pair");
}

TEST_F(Build, SameInputsSameBytesWhateverTheNames) {
  const auto given = options({input("a.txt", "x\ny\nz"), input("b.jsonl", "{\"text\": \"w\"}")}, "\n");
  build_tokens(given);
  auto other = given;
  other.out = folder_ / "other.tokens";
  build_tokens(other);
  EXPECT_EQ(read_text(given.out), read_text(other.out));
}

TEST_F(Build, HoldsOutDocumentsByAKeyedHash) {
  std::string text;
  for (int d = 0; d < 2000; ++d) text += "document " + std::to_string(d) + "\n";
  auto given = options({input("a.txt", text)}, "\n");
  given.valid_out = folder_ / "valid.tokens";
  given.valid_fraction = 0.1;
  const auto train = built(given);
  const auto valid = documents_of(given.valid_out);
  EXPECT_EQ(report_.valid.documents, static_cast<std::int64_t>(valid.size()));
  EXPECT_EQ(train.size() + valid.size(), 2000u);
  EXPECT_NEAR(static_cast<double>(valid.size()), 200.0, 3 * std::sqrt(2000 * 0.1 * 0.9));
  std::set<std::string> all(train.begin(), train.end());
  all.insert(valid.begin(), valid.end());
  EXPECT_EQ(all.size(), 2000u);  // nothing is in both
  for (std::int64_t d = 0; d < 2000; ++d) {
    const auto name = "document " + std::to_string(d);
    EXPECT_EQ(std::count(valid.begin(), valid.end(), name) == 1, is_held_out(0, d, 0.1)) << d;
  }
  Texts first;
  for (std::int64_t d = 0; d < 60; ++d)
    if (is_held_out(7, d, 0.1)) first.push_back(std::to_string(d));
  EXPECT_EQ(first, (Texts{"16", "19", "28", "34", "46", "50", "54",
                          "57"}));  // a held-out part must stay the same for ever
  given.split_seed = 1;
  build_tokens(given);
  EXPECT_NE(documents_of(given.valid_out), valid);
}

TEST_F(Build, HoldsOutTheTailOfOneText) {
  std::string text;
  for (int line = 0; line < 1000; ++line) text += "line number " + std::to_string(1000 + line) + "\n";
  auto given = options({input("a.txt", text)});
  given.valid_out = folder_ / "valid.tokens";
  given.valid_fraction = 0.25;
  const auto train = built(given);
  const auto valid = documents_of(given.valid_out);
  ASSERT_EQ(train.size(), 1u);
  ASSERT_EQ(valid.size(), 1u);
  EXPECT_EQ(train[0] + valid[0], text);
  EXPECT_EQ(train[0].back(), '\n');
  EXPECT_NEAR(static_cast<double>(valid[0].size()) / static_cast<double>(text.size()), 0.25, 0.002);

  given.inputs.push_back(input("b.txt", text));  // two files: by documents, unless the tail is asked for
  given.hold_out = HoldOut::tail;
  EXPECT_EQ(built(given), (Texts{train[0], train[0]}));
  EXPECT_EQ(documents_of(given.valid_out), (Texts{valid[0], valid[0]}));
}

TEST_F(Build, TheTailBeginsAtACharacter) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "\xe2\x82\xac";
  auto given = options({input("a.txt", text)});
  given.valid_out = folder_ / "valid.tokens";
  for (const double fraction : {0.1, 0.1001, 0.1002, 0.5}) {
    given.valid_fraction = fraction;
    EXPECT_EQ(built(given)[0].size() % 3, 0u);
    EXPECT_EQ(built(given)[0] + documents_of(given.valid_out)[0], text);
  }
}

TEST_F(Build, RefusesWrongOptionsAndInputs) {
  const auto text = input("a.txt", "text");
  const auto refusal = [](const BuildOptions& given) { return user_error_of([&] { build_tokens(given); }); };
  EXPECT_TRUE(contains(refusal(options({})), "at least one"));
  EXPECT_TRUE(contains(refusal(options({folder_ / "aa.txt"})), "nearest name there is 'a.txt'"));
  EXPECT_TRUE(contains(refusal(options({input("a.csv", "x")})), "neither .txt nor .jsonl"));
  std::filesystem::create_directory(folder_ / "d.txt");
  EXPECT_TRUE(contains(refusal(options({folder_ / "d.txt"})), "folder"));
  EXPECT_TRUE(contains(refusal(options({input("e.txt", "")})), "no text"));
  auto given = options({text});
  given.out = text;
  EXPECT_TRUE(contains(refusal(given), "both an input and an output"));
  given.out = folder_ / "nowhere/x.tokens";
  EXPECT_TRUE(contains(refusal(given), "cannot write"));
  given = options({text});
  given.tokenizer = "bite";
  EXPECT_TRUE(contains(refusal(given), "'byte'"));
  given = options({text});
  given.valid_out = folder_ / "v.tokens";
  EXPECT_TRUE(contains(refusal(given), "both a file and a fraction"));
  given.valid_fraction = 1.5;
  EXPECT_TRUE(contains(refusal(given), "between 0 and 1, not 1.5"));
  given.valid_fraction = 0.1;
  given.valid_out = given.out;
  EXPECT_TRUE(contains(refusal(given), "two files"));
  given.valid_out = folder_ / "v.tokens";
  given.separator = "x";
  given.hold_out = HoldOut::tail;
  EXPECT_TRUE(contains(refusal(given), "only where every input is a .txt file without separator"));
  given.hold_out = HoldOut::documents;
  EXPECT_TRUE(contains(refusal(given), "documents would be held out"));
}

TEST_F(Build, AFailedBuildLeavesNothingAndKeepsTheOldFile) {
  const auto good = options({input("a.txt", "old text")});
  build_tokens(good);
  const auto before = read_text(good.out);
  auto bad = options(
      {input("a.txt", std::string(3000000, 'x')), input("b.jsonl", "{\"text\": \"fine\"}\nbroken\n")});
  EXPECT_THROW(build_tokens(bad), UserError);
  EXPECT_EQ(read_text(good.out), before);
  auto names = folder_.names();
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (Texts{"a.txt", "b.jsonl", "out.tokens"}));
}

// Largest resident size, in bytes, of a process that builds `given`.
std::int64_t peak_of_build(const BuildOptions& given) {
  const pid_t child = ::fork();
  if (child == 0) {
    build_tokens(given);
    ::_exit(0);
  }
  int status = 0;
  rusage usage{};
  EXPECT_EQ(::wait4(child, &status, 0, &usage), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

// 48 MiB with 6 million documents against 1 MiB, as .txt and as one .jsonl line.
TEST_F(Build, PeakMemoryDoesNotGrowWithTheInput) {
  constexpr std::int64_t kMiB = 1 << 20;
  const auto many = [](std::int64_t bytes) {
    std::string text;
    for (text.reserve(static_cast<std::size_t>(bytes)); static_cast<std::int64_t>(text.size()) < bytes;)
      text += "abcdefg\n";
    return text;
  };
  input("small.txt", many(kMiB));
  input("large.txt", many(48 * kMiB));
  input("small.jsonl", "{\"text\": \"" + std::string(kMiB, 'x') + "\"}");
  input("large.jsonl", "{\"text\": \"" + std::string(48 * kMiB, 'x') + "\"}");
  for (const std::string kind : {".txt", ".jsonl"}) {
    const auto small = peak_of_build(options({folder_ / ("small" + kind)}, "\n"));
    const auto large = peak_of_build(options({folder_ / ("large" + kind)}, "\n"));
    EXPECT_LT(large - small, 4 * kMiB) << kind << ": " << small << " and " << large << " bytes";
  }
  EXPECT_EQ(open_token_file(folder_ / "out.tokens")->tokens(), 48 * kMiB + 1);
}

}  // namespace
}  // namespace fivefold
