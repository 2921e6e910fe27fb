// The native token file: round trips, damage of every kind, ids outside the vocabulary, indices beyond 32
// bits.
#include "data/native_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <numeric>

#include "data/sampler.h"
#include "tests/data/data_testing.h"

namespace fivefold {
namespace {

TEST(NativeFile, GivesBackIdsAndBoundsAtEveryWidth) {
  const TempFolder folder;
  for (const auto& [vocab, bytes] : {std::pair{256, 1}, {257, 2}, {65536, 2}, {65537, 4}, {200000, 4}}) {
    const Ids first = {0, 1, vocab - 1}, second = {vocab - 1}, third = {5, 0};
    const auto file = native_file(folder / "x.tokens", {first, second, third}, vocab);
    EXPECT_EQ(file->info().token_bytes, bytes) << vocab;
    EXPECT_EQ(file->info().vocab, vocab);
    EXPECT_EQ(file->info().tokenizer, "test");
    EXPECT_EQ(file->info().tokenizer_hash, "0123456789abcdef");
    EXPECT_EQ(read_all(*file), (Ids{0, 1, vocab - 1, vocab - 1, 5, 0}));
    EXPECT_EQ(file->documents(), 3);
    EXPECT_EQ(file->document_begin(0), 0);
    EXPECT_EQ(file->document_begin(1), 3);
    EXPECT_EQ(file->document_begin(2), 4);
    EXPECT_EQ(file->document_begin(3), 6);
    const std::vector<std::int64_t> owner = {0, 0, 0, 1, 2, 2};
    for (std::int64_t t = 0; t < 6; ++t) EXPECT_EQ(file->document_of(t), owner[static_cast<std::size_t>(t)]);
    EXPECT_NO_THROW(file->check());
  }
}

// One byte holds 257 ids: the end-of-document id is where the table says, whatever window is read.
TEST(NativeFile, OneByteFilesRestoreTheEndOfDocument) {
  const TempFolder folder;
  const auto file = native_file(folder / "x.tokens", {{7, 0, 255}, {0}, {1, 2}}, 257, 256);
  EXPECT_EQ(file->info().token_bytes, 1);
  const Ids all = {7, 0, 255, 256, 0, 256, 1, 2, 256};
  EXPECT_EQ(read_all(*file), all);
  for (std::size_t first = 0; first < all.size(); ++first) {
    EXPECT_EQ(file->stored_token(static_cast<std::int64_t>(first)), all[first]);
    for (std::size_t count = 0; first + count <= all.size(); ++count) {
      Ids part(count);
      file->read(static_cast<std::int64_t>(first), part, 257);
      EXPECT_EQ(part, Ids(all.begin() + static_cast<std::ptrdiff_t>(first),
                          all.begin() + static_cast<std::ptrdiff_t>(first + count)));
    }
  }
}

TEST(NativeFile, ListsDocumentStartsOfAnyWindow) {
  const TempFolder folder;
  const auto file = native_file(folder / "x.tokens", {{1, 2}, {3}, {4, 5, 6}}, 10);
  const std::vector<std::int64_t> begins = {0, 2, 3};
  for (std::int64_t first = 0; first < 6; ++first) {
    for (std::int64_t count = 0; first + count <= 6; ++count) {
      std::vector<std::int64_t> expected, found;
      for (const auto b : begins)
        if (b >= first && b < first + count) expected.push_back(b);
      file->document_starts(first, count, found);
      EXPECT_EQ(found, expected) << first << ' ' << count;
    }
  }
}

TEST(NativeFile, SameContentSameHashAndBytes) {
  const TempFolder folder;
  const auto a = native_file(folder / "a.tokens", {{1, 2}, {3}}, 10),
             b = native_file(folder / "b.tokens", {{1, 2}, {3}}, 10);
  const auto other_bounds = native_file(folder / "c.tokens", {{1}, {2, 3}}, 10);
  const auto other_vocab = native_file(folder / "d.tokens", {{1, 2}, {3}}, 11);
  EXPECT_EQ(a->hash(), b->hash());
  EXPECT_EQ(read_text(folder / "a.tokens"), read_text(folder / "b.tokens"));
  EXPECT_NE(a->hash(), other_bounds->hash());
  EXPECT_NE(a->hash(), other_vocab->hash());
}

TEST(NativeFile, RefusesEveryTruncationAndExtension) {
  const TempFolder folder;
  native_file(folder / "x.tokens", {{1, 2, 3}, {4}}, 70000);
  const auto whole = read_text(folder / "x.tokens");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write_text(folder / "cut.tokens", whole.substr(0, size));
    EXPECT_THROW(open_token_file(folder / "cut.tokens"), UserError) << size;
  }
  write_text(folder / "cut.tokens", "");
  EXPECT_TRUE(contains(user_error_of([&] { open_token_file(folder / "cut.tokens"); }), "is empty"));
  write_text(folder / "cut.tokens", whole.substr(0, whole.size() - 1));
  EXPECT_TRUE(contains(user_error_of([&] { open_token_file(folder / "cut.tokens"); }),
                       str("truncated: ", whole.size() - 1, " bytes, its header says ", whole.size())));
  write_text(folder / "long.tokens", whole + "x");
  EXPECT_TRUE(contains(user_error_of([&] { open_token_file(folder / "long.tokens"); }), "too long"));
}

TEST(NativeFile, FindsEveryFlippedBit) {
  const TempFolder folder;
  native_file(folder / "x.tokens", {{1, 2, 3}, {4}}, 257, 256);
  const auto whole = read_text(folder / "x.tokens");
  for (std::size_t byte = 0; byte < whole.size(); ++byte) {
    auto damaged = whole;
    damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << (byte % 8)));
    write_text(folder / "damaged.tokens", damaged);
    const bool padding = byte >= 134 && byte < 136;  // between six tokens and the table: no content
    if (padding) continue;
    EXPECT_THROW(open_token_file(folder / "damaged.tokens")->check(), UserError) << byte;
  }
}

// A damaged table may say anything; reading must stay inside the file and the output.
TEST(NativeFile, DamagedTablesCannotLeadOutOfBounds) {
  const TempFolder folder;
  native_file(folder / "x.tokens", {{1, 2}, {3, 4}, {5, 6}}, 257, 256);
  auto whole = read_text(folder / "x.tokens");
  const std::size_t table = whole.size() - 24;
  for (const std::int64_t wrong : {std::int64_t{-5}, std::int64_t{1} << 60, std::int64_t{0}}) {
    std::memcpy(whole.data() + table, &wrong, sizeof wrong);
    write_text(folder / "damaged.tokens", whole);
    const auto file = open_token_file(folder / "damaged.tokens");
    for (std::int64_t first = 0; first < file->tokens(); ++first) {
      Ids ids(static_cast<std::size_t>(file->tokens() - first));
      file->read(first, ids, 0);
      std::vector<std::int64_t> starts;
      file->document_starts(first, file->tokens() - first, starts);
      for (const auto start : starts) EXPECT_TRUE(start >= first && start < file->tokens());
    }
    EXPECT_THROW(file->check(), UserError);
  }
}

TEST(NativeFile, RefusesWhatIsNoTokenFile) {
  const TempFolder folder;
  write_text(folder / "story.txt", "Once upon a time");
  const auto sentence = user_error_of([&] { open_token_file(folder / "story.txt"); });
  EXPECT_TRUE(contains(sentence, "no token file")) << sentence;
  EXPECT_TRUE(contains(sentence, "data build")) << sentence;
  write_text(folder / "corpus.tokens", "x");
  EXPECT_TRUE(contains(user_error_of([&] { open_token_file(folder / "corpus.token"); }),
                       "nearest name there is 'corpus.tokens'"));
  EXPECT_THROW(open_token_file(folder / "."), UserError);
}

// B75: an id at the vocabulary's end or in the padded range is refused when read, with file, document and
// offset.
TEST(NativeFile, RefusesIdsOutsideTheVocabulary) {
  const TempFolder folder;
  const auto file = native_file(folder / "x.tokens", {{1, 2}, {3, 300, 4}}, 301);
  Ids ids(5);
  EXPECT_NO_THROW(file->read(0, ids, 0));
  EXPECT_NO_THROW(file->read(0, ids, 301));
  const auto sentence = user_error_of([&] { file->read(0, ids, 300); });
  EXPECT_EQ(sentence,
            str(folder / "x.tokens",
                ": document 1, offset 1 (token 3): id 300 is outside the vocabulary, ids are 0 to 299"));
  // The file's own vocabulary holds even where the model pads its embedding to 320 rows.
  auto whole = read_text(folder / "x.tokens");
  const std::uint16_t padded_id = 310;
  std::memcpy(whole.data() + 128 + 2 * 3, &padded_id, sizeof padded_id);
  write_text(folder / "y.tokens", whole);
  EXPECT_TRUE(
      contains(user_error_of([&] { open_token_file(folder / "y.tokens")->read(0, ids, 320); }), "id 310"));
  Ids before(3);
  EXPECT_NO_THROW(
      open_token_file(folder / "y.tokens")->read(0, before, 320));  // only what is read is looked at
}

TEST(NativeFile, WritersRefuseWhatTheyCannotStore) {
  const TempFolder folder;
  TokenWriter writer(folder / "x.tokens", {"test", "00", 257, 256});
  EXPECT_THROW(writer.append(Ids{257}), Error);
  EXPECT_THROW(writer.append(Ids{-1}), Error);
  EXPECT_THROW(writer.append(Ids{256}), Error);  // only the end of a document may be stored as implied
  EXPECT_THROW(writer.end_document(), Error);
  EXPECT_THROW(writer.commit(), Error);
}

// A native file of one-byte ids made of holes, but for a few ids and the document table.
void write_sparse(const std::string& path, std::int64_t tokens, const std::vector<std::int64_t>& ends,
                  std::int64_t at, const std::string& ids) {
  NativeHeader header;
  header.token_bytes = 1;
  header.vocab = 256;
  header.tokens = tokens;
  header.documents = static_cast<std::int64_t>(ends.size());
  header.tokens_offset = sizeof header;
  header.table_offset = (header.tokens_offset + tokens + 7) / 8 * 8;
  header.header_hash = header_hash(header);
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0644);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::ftruncate(fd, header.table_offset + header.documents * 8), 0);
  EXPECT_EQ(::pwrite(fd, &header, sizeof header, 0), static_cast<ssize_t>(sizeof header));
  EXPECT_EQ(::pwrite(fd, ids.data(), ids.size(), header.tokens_offset + at),
            static_cast<ssize_t>(ids.size()));
  EXPECT_EQ(::pwrite(fd, ends.data(), ends.size() * 8, header.table_offset),
            static_cast<ssize_t>(ends.size() * 8));
  ::close(fd);
}

// B73: more than 2^31 and 2^32 tokens.
TEST(NativeFile, IndicesHave64Bits) {
  const TempFolder folder;
  for (const std::int64_t tokens : {3'000'000'000ll, 5'000'000'000ll}) {
    const std::int64_t edge = tokens > (1ll << 32) ? 1ll << 32 : 1ll << 31, at = edge + 5;
    write_sparse(folder / "big.tokens", tokens, {edge + 3, edge + 7, tokens}, at, "abc");
    const auto file = open_token_file(folder / "big.tokens");
    EXPECT_EQ(file->tokens(), tokens);
    Ids ids(5);
    file->read(at - 1, ids, 0);
    EXPECT_EQ(ids, (Ids{0, 'a', 'b', 'c', 0}));
    EXPECT_EQ(file->document_of(at), 1);
    EXPECT_EQ(file->document_begin(2), edge + 7);
    EXPECT_EQ(file->place_of(at + 2).offset, 0);
    std::vector<std::int64_t> starts;
    file->document_starts(edge, 100, starts);
    EXPECT_EQ(starts, (std::vector<std::int64_t>{edge + 3, edge + 7}));
    const Sampler sampler({{file, 1.0}}, {.sequence = 1, .order = SampleOrder::sequential});
    const auto batch = sampler.micro_batch(3 * sampler.samples() + at, 3, 3);  // three epochs on
    EXPECT_EQ(batch.tokens, (Ids{'a', 'b', 'c'}));
    EXPECT_EQ(batch.targets, (Ids{'b', -1, 0}));  // "ab" ends a document
  }
}

}  // namespace
}  // namespace fivefold
