// The byte tokenizer and its identity.
#include "data/tokenizer.h"

#include "tests/data/data_testing.h"

namespace fivefold {
namespace {

TEST(ByteTokenizer, MapsBytesToThemselves) {
  const auto tokenizer = make_tokenizer("byte");
  std::string every;
  for (int c = 0; c < 256; ++c) every += static_cast<char>(c);
  const auto ids = tokenizer->encode(every);
  for (int c = 0; c < 256; ++c) EXPECT_EQ(ids[static_cast<std::size_t>(c)], c);
  EXPECT_EQ(tokenizer->decode(ids), every);
  EXPECT_EQ(tokenizer->vocab_size(), 257);
  EXPECT_EQ(tokenizer->end_of_document(), 256);
  EXPECT_EQ(tokenizer->decode(Ids{'a', 256, 300, -1, 'b'}), "ab");  // ids of a padded vocabulary have no text
}

TEST(ByteTokenizer, EncodesAStreamInPieces) {
  const auto tokenizer = make_tokenizer("byte");
  Ids ids;
  EXPECT_EQ(tokenizer->encode_prefix("ab", false, ids), 2u);
  EXPECT_EQ(tokenizer->encode_prefix("", false, ids), 0u);
  EXPECT_EQ(tokenizer->encode_prefix("c", true, ids), 1u);
  EXPECT_EQ(ids, (Ids{'a', 'b', 'c'}));
}

// Stored in token files and checkpoints.
TEST(ByteTokenizer, ItsHashNeverChanges) { EXPECT_EQ(make_tokenizer("byte")->hash(), "b4547622d8273458"); }

TEST(Tokenizer, UnknownNamesAreRefused) {
  EXPECT_TRUE(contains(user_error_of([] { make_tokenizer("bytes"); }), "nearest known one is 'byte'"));
}

}  // namespace
}  // namespace fivefold
