// Token files of other systems (llm.c, Megatron), written here byte by byte, and several files joined.
#include <cstring>

#include "data/data_set.h"
#include "tests/data/data_testing.h"

namespace fivefold {
namespace {

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class Id>
std::string llmc_bytes(std::int32_t magic, std::int32_t version, const std::vector<Id>& ids) {
  std::string out;
  for (const auto word : {magic, version, static_cast<std::int32_t>(ids.size())}) put(out, word);
  out.resize(1024);
  for (const auto id : ids) put(out, id);
  return out;
}

TEST(LlmcFile, ReadsGpt2AndLlama3Files) {
  const TempFolder folder;
  write_text(folder / "a.bin", llmc_bytes<std::uint16_t>(20240520, 1, {50256, 10, 11, 50256, 12, 50255}));
  const auto gpt2 = open_token_file(folder / "a.bin");
  EXPECT_EQ(gpt2->info().format, "llm.c");
  EXPECT_EQ(gpt2->info().vocab, 50257);
  EXPECT_EQ(gpt2->info().tokenizer, "gpt2");
  EXPECT_EQ(read_all(*gpt2), (Ids{50256, 10, 11, 50256, 12, 50255}));
  EXPECT_EQ(gpt2->documents(), 2);
  EXPECT_EQ(gpt2->document_begin(1), 3);
  EXPECT_EQ(gpt2->document_of(5), 1);
  std::vector<std::int64_t> starts;
  gpt2->document_starts(1, 4, starts);
  EXPECT_EQ(starts, (std::vector<std::int64_t>{3}));

  write_text(folder / "b.bin", llmc_bytes<std::uint32_t>(20240801, 7, {128000, 128255, 9}));
  const auto llama3 = open_token_file(folder / "b.bin");
  EXPECT_EQ(llama3->info().vocab, 128256);
  EXPECT_EQ(read_all(*llama3), (Ids{128000, 128255, 9}));
  EXPECT_EQ(llama3->documents(), 1);
  EXPECT_NO_THROW(llama3->check());
  EXPECT_NE(gpt2->hash(), llama3->hash());
}

TEST(LlmcFile, TextBeforeTheFirstDelimiterIsADocument) {
  const TempFolder folder;
  write_text(folder / "a.bin", llmc_bytes<std::uint16_t>(20240520, 1, {1, 2, 50256, 3}));
  const auto file = open_token_file(folder / "a.bin");
  EXPECT_EQ(file->documents(), 2);
  EXPECT_EQ(file->document_begin(1), 2);
}

TEST(LlmcFile, RefusesOtherVersionsSizesAndKinds) {
  const TempFolder folder;
  const auto refusal = [&](const std::string& bytes) {
    write_text(folder / "x.bin", bytes);
    return user_error_of([&] { open_token_file(folder / "x.bin"); });
  };
  const auto good = llmc_bytes<std::uint16_t>(20240520, 1, {1, 2, 3});
  EXPECT_TRUE(contains(refusal(llmc_bytes<std::uint16_t>(20240520, 2, {1})), "version 2"));
  EXPECT_TRUE(contains(refusal(llmc_bytes<std::uint16_t>(20240522, 1, {1})), "evaluation file"));
  EXPECT_TRUE(contains(refusal(good.substr(0, good.size() - 1)), "truncated"));
  EXPECT_TRUE(contains(refusal(good + "x"), "too long"));
  EXPECT_TRUE(contains(refusal(good.substr(0, 100)), "truncated"));
  EXPECT_TRUE(contains(refusal(llmc_bytes<std::uint16_t>(20240520, 1, {})), "no token"));
}

// B75
TEST(LlmcFile, RefusesIdsOutsideTheVocabulary) {
  const TempFolder folder;
  write_text(folder / "a.bin", llmc_bytes<std::uint16_t>(20240520, 1, {50256, 1, 50256, 7, 50257}));
  const auto file = open_token_file(folder / "a.bin");
  Ids ids(5);
  EXPECT_TRUE(contains(
      user_error_of([&] { file->read(0, ids, 50304); }),
      "a.bin: document 1, offset 2 (token 4): id 50257 is outside the vocabulary, ids are 0 to 50256"));
  EXPECT_THROW(file->check(), UserError);
  write_text(folder / "b.bin", llmc_bytes<std::uint32_t>(20240801, 7, {0xffffffffu}));
  EXPECT_TRUE(contains(user_error_of([&] { open_token_file(folder / "b.bin")->check(); }), "id 4294967295"));
}

struct Megatron {
  std::uint8_t type = 8;
  std::vector<std::int32_t> lengths;
  std::vector<std::int64_t> documents;  // first sequence of each, closed by the number of sequences
  std::int64_t id_bytes = 2;

  std::string index() const {
    std::string out("MMIDIDX\0\0", 9);
    put<std::uint64_t>(out, 1);
    put(out, type);
    put<std::uint64_t>(out, lengths.size());
    put<std::uint64_t>(out, documents.size());
    for (const auto length : lengths) put(out, length);
    std::int64_t offset = 0;
    for (const auto length : lengths) {
      put(out, offset);
      offset += length * id_bytes;
    }
    for (const auto document : documents) put(out, document);
    return out;
  }
};

template <class Id>
void write_megatron(const std::string& prefix, const Megatron& layout, const std::vector<Id>& ids) {
  std::string data;
  for (const auto id : ids) put(data, id);
  write_text(prefix + ".bin", data);
  write_text(prefix + ".idx", layout.index());
}

TEST(MegatronFile, ReadsSequencesAndDocuments) {
  const TempFolder folder;
  // The second document has two sequences, the third none.
  write_megatron<std::uint16_t>(folder / "d", {8, {2, 1, 3, 1}, {0, 1, 3, 3, 4}, 2},
                                {1, 2, 3, 4, 5, 6, 65535});
  for (const char* name : {"d", "d.bin", "d.idx"}) {
    const auto file = open_token_file(folder / name);
    EXPECT_EQ(file->info().format, "megatron");
    EXPECT_EQ(file->info().vocab, 0);
    EXPECT_EQ(read_all(*file), (Ids{1, 2, 3, 4, 5, 6, 65535}));
    EXPECT_EQ(file->documents(), 4);
    EXPECT_EQ(file->document_begin(1), 2);
    EXPECT_EQ(file->document_begin(2), 6);
    EXPECT_EQ(file->document_begin(3), 6);
    EXPECT_EQ(file->document_begin(4), 7);
    EXPECT_EQ(file->document_of(1), 0);
    EXPECT_EQ(file->document_of(5), 1);
    EXPECT_EQ(file->document_of(6), 3);
    std::vector<std::int64_t> starts;
    file->document_starts(0, 7, starts);
    EXPECT_EQ(starts, (std::vector<std::int64_t>{0, 2, 6}));
    EXPECT_NO_THROW(file->check());
  }
}

template <class Id>
void expect_type(std::uint8_t type) {
  const TempFolder folder;
  write_megatron<Id>(folder / "d", {type, {3}, {0, 1}, sizeof(Id)}, {Id{1}, Id{2}, Id{100}});
  EXPECT_EQ(read_all(*open_token_file(folder / "d")), (Ids{1, 2, 100})) << int{type};
}

TEST(MegatronFile, ReadsEveryIntegerType) {
  expect_type<std::uint8_t>(1);
  expect_type<std::int8_t>(2);
  expect_type<std::int16_t>(3);
  expect_type<std::int32_t>(4);
  expect_type<std::int64_t>(5);
  expect_type<std::uint16_t>(8);
}

// B75: -1 and ids that no 32 bits hold.
TEST(MegatronFile, RefusesIdsOutsideTheVocabulary) {
  const TempFolder folder;
  Ids ids(3);
  write_megatron<std::int32_t>(folder / "a", {4, {1, 2}, {0, 1, 2}, 4}, {5, 6, -1});
  EXPECT_TRUE(
      contains(user_error_of([&] { open_token_file(folder / "a")->read(0, ids, 100); }),
               "a.bin: document 1, offset 1 (token 2): id -1 is outside the vocabulary, ids are 0 to 99"));
  EXPECT_TRUE(contains(user_error_of([&] { open_token_file(folder / "a")->read(0, ids, 6); }), "id 6"));
  write_megatron<std::int64_t>(folder / "b", {5, {3}, {0, 1}, 8}, {5, 1ll << 32, 6});
  EXPECT_TRUE(
      contains(user_error_of([&] { open_token_file(folder / "b")->read(0, ids, 0); }), "id 4294967296"));
}

TEST(MegatronFile, RefusesDamage) {
  const TempFolder folder;
  const Megatron layout{8, {2, 1}, {0, 1, 2}, 2};
  const std::vector<std::uint16_t> ids = {1, 2, 3};
  write_megatron(folder / "d", layout, ids);
  const auto index = layout.index();
  const auto refusal = [&](const std::string& bytes) {
    write_text(folder / "d.idx", bytes);
    return user_error_of([&] { open_token_file(folder / "d"); });
  };
  for (std::size_t size = 9; size < index.size(); ++size)
    EXPECT_TRUE(contains(refusal(index.substr(0, size)), "d.idx")) << size;
  auto changed = index;
  changed[17] = 7;
  EXPECT_TRUE(contains(refusal(changed), "element type 7"));
  changed = index;
  changed[9] = 2;
  EXPECT_TRUE(contains(refusal(changed), "version 2"));
  changed = index;
  changed[34] = 3;  // length of the first sequence
  EXPECT_TRUE(contains(refusal(changed), "end to end"));
  changed = index;
  changed[25] = 1;  // an absurd number of sequences
  EXPECT_TRUE(contains(refusal(changed), "cannot hold"));
  write_text(folder / "d.idx", index);
  write_text(folder / "d.bin", "12345");
  EXPECT_TRUE(contains(user_error_of([&] { open_token_file(folder / "d"); }), "truncated"));
  write_text(folder / "d.bin", "1234567");
  EXPECT_TRUE(contains(user_error_of([&] { open_token_file(folder / "d"); }), "too long"));
  std::filesystem::remove(folder / "d.bin");
  EXPECT_TRUE(contains(user_error_of([&] { open_token_file(folder / "d"); }), "cannot open"));
}

TEST(JoinedFile, ReadsAcrossItsParts) {
  const TempFolder folder;
  const auto a = native_file(folder / "a", {{1, 2}, {3}}, 10), b = native_file(folder / "b", {{4}}, 20);
  const auto c = native_file(folder / "c", {{5, 6}, {7, 8}}, 10);
  const auto all = join_token_files({a, b, c});
  const Ids ids = {1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(read_all(*all), ids);
  EXPECT_EQ(all->info().vocab, 20);
  EXPECT_EQ(all->documents(), 5);
  const std::vector<std::int64_t> begins = {0, 2, 3, 4, 6, 8};
  for (std::size_t d = 0; d < begins.size(); ++d)
    EXPECT_EQ(all->document_begin(static_cast<std::int64_t>(d)), begins[d]);
  for (std::int64_t first = 0; first < 8; ++first) {
    for (std::int64_t count = 0; first + count <= 8; ++count) {
      Ids part(static_cast<std::size_t>(count));
      all->read(first, part, 0);
      EXPECT_EQ(part, Ids(ids.begin() + first, ids.begin() + first + count));
      std::vector<std::int64_t> starts, expected;
      all->document_starts(first, count, starts);
      for (const auto s : begins)
        if (s >= first && s < first + count) expected.push_back(s);
      EXPECT_EQ(starts, expected);
    }
  }
  EXPECT_EQ(all->place_of(6).path, folder / "c");
  EXPECT_EQ(all->place_of(6).document, 1);
  Ids two(2);
  EXPECT_TRUE(
      contains(user_error_of([&] { all->read(2, two, 4); }), str(folder / "b", ": document 0, offset 0")));
  EXPECT_NE(all->hash(), join_token_files({b, a, c})->hash());
}

TEST(DataSet, ParsesNamesPatternsAndWeights) {
  using Specs = std::vector<SourceSpec>;
  EXPECT_EQ(parse_sources("a.tokens"), (Specs{{"a.tokens", 0.0}}));
  EXPECT_EQ(parse_sources(" a , b,"), (Specs{{"a", 0.0}, {"b", 0.0}}));
  EXPECT_EQ(parse_sources("a*0.7, part_**2"), (Specs{{"a", 0.7}, {"part_*", 2.0}}));
  EXPECT_EQ(parse_sources("part_*.bin"), (Specs{{"part_*.bin", 0.0}}));
  EXPECT_EQ(parse_sources(""), Specs{});
  EXPECT_TRUE(contains(user_error_of([] { parse_sources("a*-1"); }), "must be positive"));
  EXPECT_TRUE(contains(user_error_of([] { parse_sources("a*0"); }), "must be positive"));
}

TEST(DataSet, OpensOneJoinedSourceOrAMixture) {
  const TempFolder folder;
  native_file(folder / "p_2", {{3, 4}}, 10);
  native_file(folder / "p_1", {{1, 2}}, 10);
  native_file(folder / "q", {{9}}, 10);
  const auto joined = open_data_set({{folder / "p_*"}, {folder / "q"}});
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_EQ(read_all(*joined[0].file), (Ids{1, 2, 3, 4, 9}));
  const auto mixed = open_data_set({{folder / "p_*", 3.0}, {folder / "q", 1.0}});
  ASSERT_EQ(mixed.size(), 2u);
  EXPECT_EQ(read_all(*mixed[0].file), (Ids{1, 2, 3, 4}));
  EXPECT_EQ(mixed[1].weight, 1.0);
  EXPECT_NE(hash_of(joined), hash_of(mixed));
  EXPECT_EQ(hash_of(mixed), hash_of(open_data_set({{folder / "p_*", 6.0}, {folder / "q", 2.0}})));
  EXPECT_NE(hash_of(mixed), hash_of(open_data_set({{folder / "p_*", 1.0}, {folder / "q", 1.0}})));
}

TEST(DataSet, RefusesWhatCannotBeOneDataSet) {
  const TempFolder folder;
  native_file(folder / "a", {{1}}, 10);
  TokenWriter writer(folder / "b", {"other", "00", 10, -1});
  writer.append(Ids{1});
  writer.end_document();
  writer.commit();
  EXPECT_TRUE(contains(user_error_of([&] {
                         open_data_set({{folder / "a"}, {folder / "b"}});
                       }),
                       "one tokenizer"));
  EXPECT_TRUE(contains(user_error_of([&] {
                         open_data_set({{folder / "a", 1.0}, {folder / "b", 1.0}});
                       }),
                       "one tokenizer"));
  EXPECT_TRUE(contains(user_error_of([&] {
                         open_data_set({{folder / "a", 1.0}, {folder / "a"}});
                       }),
                       "weight"));
  EXPECT_TRUE(contains(user_error_of([&] { open_data_set({}); }), "at least one"));
  EXPECT_TRUE(contains(user_error_of([&] { open_data_set({{folder / "z*"}}); }), "no data file matches"));
}

}  // namespace
}  // namespace fivefold
