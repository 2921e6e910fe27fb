// Samples, their order over epochs and ranks, and the counts that scale the loss.
#include "data/sampler.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/philox.h"
#include "data/assignment.h"
#include "data/trace.h"
#include "tests/data/data_testing.h"

namespace fivefold {
namespace {

using Trace = std::vector<std::int64_t>;

// Documents of random lengths whose ids count up through the file, modulo the vocabulary.
std::vector<Ids> random_documents(std::uint64_t seed, std::int64_t tokens, std::int32_t vocab) {
  std::vector<Ids> documents;
  std::int32_t next = 0;
  for (std::int64_t left = tokens; left > 0;) {
    const auto size = std::min<std::int64_t>(left, 1 + philox(seed, documents.size(), 0)[0] % 9);
    Ids document;
    for (std::int64_t t = 0; t < size; ++t) document.push_back(next++ % vocab);
    documents.push_back(document);
    left -= size;
  }
  return documents;
}

class Samples : public testing::Test {
 protected:
  Source source(const std::string& name, const std::vector<Ids>& documents, std::int64_t vocab = 251,
                double weight = 1.0) {
    return {native_file(folder_ / name, documents, vocab), weight};
  }
  Sampler sampler(std::vector<Source> sources, SamplerOptions options) {
    return Sampler(std::move(sources), options);
  }
  TempFolder folder_;
};

// Row by row from the definition: CONTRACT's sample i, documents found token by token.
void expect_naive(const TokenFile& file, const SamplerOptions& options, const Trace& samples,
                  const MicroBatch& batch) {
  const std::int64_t length = options.sequence;
  const auto ids = read_all(file);
  std::int64_t valid = 0;
  for (std::size_t b = 0; b < samples.size(); ++b) {
    const std::int64_t begin = samples[b] * length, base = static_cast<std::int64_t>(b) * length;
    for (std::int64_t j = 0; j < length; ++j) {
      const auto row = static_cast<std::size_t>(base + j);
      const bool masked = options.documents == Documents::mask;
      const std::int64_t document = file.document_of(begin + j);
      const std::int64_t first =
          masked ? std::max<std::int64_t>(0, file.document_begin(document) - begin) : 0;
      const bool last = masked && file.document_of(begin + j + 1) != document;
      EXPECT_EQ(batch.tokens[row], ids[static_cast<std::size_t>(begin + j)]);
      EXPECT_EQ(batch.targets[row], last ? -1 : ids[static_cast<std::size_t>(begin + j + 1)]);
      EXPECT_EQ(batch.position[row], j - first);
      EXPECT_EQ(batch.q_index[row], base + j);
      EXPECT_EQ(batch.k_index[row], base + j);
      EXPECT_EQ(batch.first_visible[row], base + first);
      valid += !last;
    }
  }
  EXPECT_EQ(batch.valid_targets, valid);
}

TEST_F(Samples, MatchTheDefinition) {
  const auto data = source("x", random_documents(1, 100, 251));
  for (const auto documents : {Documents::mask, Documents::join}) {
    for (const std::int64_t sequence : {1, 2, 7, 16, 99}) {
      const SamplerOptions options{
          .seed = 3, .sequence = sequence, .documents = documents, .order = SampleOrder::shuffle};
      const auto made = sampler({data}, options);
      EXPECT_EQ(made.samples(), 99 / sequence);
      for (std::int64_t first = 0; first < made.samples(); first += 3) {
        Trace samples;
        for (std::int64_t i = first; i < first + 4; ++i) samples.push_back(made.locate(i).sample);
        const auto batch = made.micro_batch(first, 4, 4);
        expect_naive(*data.file, options, samples, batch);
        EXPECT_EQ(made.valid_targets(first, 4), batch.valid_targets);
      }
    }
  }
}

TEST_F(Samples, MaskByHand) {
  const auto made =
      sampler({source("x", {{1, 2}, {3}, {4, 5, 6, 7}})}, {.sequence = 6, .order = SampleOrder::sequential});
  const auto batch = made.micro_batch(0, 1, 1);
  EXPECT_EQ(batch.tokens, (Ids{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(batch.targets, (Ids{2, -1, -1, 5, 6, 7}));
  EXPECT_EQ(batch.position, (Ids{0, 1, 0, 0, 1, 2}));
  EXPECT_EQ(batch.first_visible, (Ids{0, 0, 2, 3, 3, 3}));
  EXPECT_EQ(batch.valid_targets, 4);
}

// B17: a short micro-batch is filled with sequences that take part in nothing; an all-empty one has no
// target.
TEST_F(Samples, EmptySequencesTakePartInNothing) {
  const auto made = sampler({source("x", random_documents(2, 50, 251))}, {.sequence = 5});
  const auto batch = made.micro_batch(4, 3, 1);
  const auto real = made.micro_batch(4, 1, 1);
  ASSERT_EQ(batch.rows(), 15);
  EXPECT_EQ(batch.valid_targets, real.valid_targets);
  for (std::size_t row = 0; row < 15; ++row) {
    if (row < 5) {
      EXPECT_EQ(batch.tokens[row], real.tokens[row]);
      EXPECT_EQ(batch.first_visible[row], real.first_visible[row]);
      continue;
    }
    EXPECT_EQ(batch.tokens[row], 0);
    EXPECT_EQ(batch.targets[row], -1);
    EXPECT_EQ(batch.position[row], 0);
    EXPECT_EQ(batch.q_index[row], static_cast<std::int32_t>(row));
    EXPECT_GT(batch.first_visible[row], batch.q_index[row]);
  }
  EXPECT_EQ(made.micro_batch(4, 3, 0).valid_targets, 0);
}

// B11, B13: targets are counted over the whole step, so ranks and micro-batches with few of them weigh what
// they hold.
TEST_F(Samples, TargetsAddUpOverRanksAndMicroBatches) {
  const auto data = source(
      "x",
      {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {12}, {13}, {14}, {15}, {16}, {17, 18}, {19}, {20}, {21}, {22}});
  const auto made = sampler({data}, {.sequence = 10, .order = SampleOrder::sequential});
  ASSERT_EQ(made.samples(), 2);
  EXPECT_EQ(made.valid_targets(0, 1), 10);
  EXPECT_EQ(made.valid_targets(1, 1), 1);
  for (const std::int64_t ranks : {1, 2, 3}) {
    std::int64_t total = 0;
    for (std::int64_t r = 0; r < ranks; ++r) {
      const auto range = samples_of(0, 2, r, ranks, 2, 0);
      total += made.micro_batch(range.first, 2, range.count).valid_targets;
    }
    EXPECT_EQ(total, 11);
  }
}

TEST(Assignment, EverySampleOnceForAnyNumberOfRanks) {
  for (std::int64_t batch = 1; batch <= 13; ++batch) {
    for (std::int64_t ranks = 1; ranks <= 9; ++ranks) {
      for (std::int64_t micro = 1; micro <= 5; ++micro) {
        Trace seen;
        const auto steps = micro_batches_per_step(batch, ranks, micro);
        for (std::int64_t r = 0; r < ranks; ++r) {
          std::int64_t own = 0;
          for (std::int64_t m = 0; m < steps; ++m) {
            const auto range = samples_of(1000, batch, r, ranks, micro, m);
            ASSERT_LE(range.count, micro);
            own += range.count;
            for (std::int64_t i = 0; i < range.count; ++i) seen.push_back(range.first + i);
          }
          EXPECT_LE(own, (batch + ranks - 1) / ranks);
        }
        ASSERT_EQ(static_cast<std::int64_t>(seen.size()), batch);
        for (std::int64_t i = 0; i < batch; ++i)
          ASSERT_EQ(seen[static_cast<std::size_t>(i)], 1000 + i);  // contiguous blocks
      }
    }
  }
}

// B17: 7 samples in micro-batches of 4: nothing is dropped, every rank runs the same number of micro-batches.
TEST(Assignment, TheLastMicroBatchMayBeShort) {
  EXPECT_EQ(micro_batches_per_step(7, 1, 4), 2);
  EXPECT_EQ(samples_of(0, 7, 0, 1, 4, 0), (SampleRange{0, 4}));
  EXPECT_EQ(samples_of(0, 7, 0, 1, 4, 1), (SampleRange{4, 3}));
  EXPECT_EQ(micro_batches_per_step(7, 3, 2), 2);
  EXPECT_EQ(samples_of(0, 7, 0, 3, 2, 1).count, 0);
  EXPECT_EQ(samples_of(0, 7, 2, 3, 2, 1), (SampleRange{6, 1}));
  EXPECT_THROW(samples_of(0, 7, 0, 1, 4, 2), Error);
}

// The data samples that a run of `steps` steps reads, in the order of the batch, begun at `consumed` samples.
Trace trace_of(const Sampler& made, std::int64_t consumed, std::int64_t steps, std::int64_t batch,
               std::int64_t ranks, std::int64_t micro) {
  Trace trace;
  for (std::int64_t step = 0; step < steps; ++step, consumed += batch)
    for (std::int64_t r = 0; r < ranks; ++r)
      for (std::int64_t m = 0; m < micro_batches_per_step(batch, ranks, micro); ++m) {
        const auto range = samples_of(consumed, batch, r, ranks, micro, m);
        for (std::int64_t i = 0; i < range.count; ++i) trace.push_back(made.locate(range.first + i).sample);
      }
  return trace;
}

// B77, B78: the resume state is the samples consumed; three stops, one across an epoch's edge, other ranks
// after each.
TEST_F(Samples, ResumedOrderEqualsTheUninterruptedOne) {
  const auto data = source("x", random_documents(3, 10 * 4 + 1, 251));
  for (const auto order : {SampleOrder::shuffle, SampleOrder::sequential}) {
    const auto made = sampler({data}, {.seed = 11, .sequence = 4, .order = order});
    ASSERT_EQ(made.samples(), 10);
    const auto whole = trace_of(made, 0, 12, 4, 1, 4);
    Trace pieces;
    std::int64_t consumed = 0, ranks = 1;
    for (const std::int64_t steps :
         {1, 1, 1, 9}) {  // the third step holds samples 8 to 11: epoch 0 ends inside it
      const auto part = trace_of(sampler({data}, {.seed = 11, .sequence = 4, .order = order}), consumed,
                                 steps, 4, ranks, ranks % 3 + 1);
      pieces.insert(pieces.end(), part.begin(), part.end());
      consumed += steps * 4;
      ++ranks;
    }
    EXPECT_EQ(pieces, whole);
  }
}

// B77: 10 samples, micro-batch 2, 2 ranks: rank 1 goes on with [[6, 7], [0, 1]].
TEST_F(Samples, TheSecondRankContinuesPastTheEpoch) {
  const auto made =
      sampler({source("x", random_documents(4, 11, 251))}, {.sequence = 1, .order = SampleOrder::sequential});
  Trace rank1;
  for (const std::int64_t consumed : {4, 8}) {
    const auto range = samples_of(consumed, 4, 1, 2, 2, 0);
    for (std::int64_t i = 0; i < range.count; ++i) rank1.push_back(made.locate(range.first + i).sample);
  }
  EXPECT_EQ(rank1, (Trace{6, 7, 0, 1}));
}

// B79: one permutation for all ranks: over an epoch they take each sample once, and epochs, seeds differ.
TEST_F(Samples, RanksShareOnePermutation) {
  const auto data = source("x", random_documents(5, 24 * 3 + 1, 251));
  const auto made = sampler({data}, {.seed = 1, .sequence = 3});
  const auto first = trace_of(made, 0, 3, 8, 4, 1), second = trace_of(made, 24, 3, 8, 4, 1);
  EXPECT_EQ(std::set<std::int64_t>(first.begin(), first.end()).size(), 24u);
  EXPECT_EQ(std::set<std::int64_t>(second.begin(), second.end()).size(), 24u);
  EXPECT_NE(first, second);
  EXPECT_NE(first, trace_of(sampler({data}, {.seed = 2, .sequence = 3}), 0, 3, 8, 4, 1));
  EXPECT_EQ(first, trace_of(made, 0, 3, 8, 1, 8));  // whatever the ranks and the micro-batch
}

TEST_F(Samples, MixturesRepeatEachSourceInItsOwnEpochs) {
  const auto a = source("a", random_documents(6, 10 * 2 + 1, 251), 251, 3.0);
  const auto b = source("b", random_documents(7, 4 * 2 + 1, 251), 251, 1.0);
  const auto made = sampler({a, b}, {.seed = 1, .sequence = 2});
  EXPECT_EQ(made.samples(), 14);
  std::map<std::int64_t, Trace> seen;
  for (std::int64_t i = 0; i < 80; ++i) {
    const auto place = made.locate(i);
    auto& list = seen[place.source];
    EXPECT_EQ(place.epoch, static_cast<std::int64_t>(list.size()) / made.samples_in(place.source));
    list.push_back(place.sample);
  }
  EXPECT_EQ(seen[0].size(), 60u);
  EXPECT_EQ(seen[1].size(), 20u);
  for (std::size_t epoch = 0; epoch < 5; ++epoch) {
    const auto begin = seen[1].begin() + static_cast<std::ptrdiff_t>(4 * epoch);
    EXPECT_EQ(std::set<std::int64_t>(begin, begin + 4).size(), 4u);
  }
  const auto alone = sampler({a}, {.seed = 1, .sequence = 2});
  for (std::int64_t i = 0; i < 60; ++i)
    EXPECT_EQ(seen[0][static_cast<std::size_t>(i)], alone.locate(i).sample);
  EXPECT_EQ(made.micro_batch(0, 8, 8).valid_targets, made.valid_targets(0, 8));
}

// B73: epochs times tokens beyond 32 bits, and a sample around token 2^31 + 5.
TEST_F(Samples, IndicesHave64Bits) {
  const auto data = source("x", random_documents(8, 31, 251));
  const auto made = sampler({data}, {.sequence = 3, .order = SampleOrder::sequential});
  const std::int64_t far = 5'000'000'000'000;
  EXPECT_EQ(made.locate(far * 10 + 7), (SamplePlace{0, far, 7}));
  EXPECT_EQ(made.micro_batch(far * 10 + 7, 1, 1).tokens, made.micro_batch(7, 1, 1).tokens);
}

// B75: refused by whichever rank reads the sample, in the same words, whatever the model pads its vocabulary
// to.
TEST_F(Samples, RefusesIdsOutsideTheVocabulary) {
  const auto data = source("x", {{1, 2, 3}, {4, 90, 6}}, 100);
  EXPECT_TRUE(contains(user_error_of([&] { sampler({data}, {.sequence = 2, .vocab = 90}); }),
                       "has ids up to 99, but model.vocab is 90; it must be at least 100"));
  auto bytes = read_text(folder_ / "x");
  bytes[128 + 4] = 101;  // the id 90, at offset 1 of document 1
  write_text(folder_ / "x", bytes);
  const Source damaged = {open_token_file(folder_ / "x"), 1.0};
  const SamplerOptions options{.sequence = 2, .vocab = 128, .order = SampleOrder::sequential};
  EXPECT_NO_THROW(sampler({damaged}, options).micro_batch(0, 1, 1));
  const auto sentence = user_error_of([&] { sampler({damaged}, options).micro_batch(1, 1, 1); });
  EXPECT_TRUE(contains(
      sentence, "x: document 1, offset 1 (token 4): id 101 is outside the vocabulary, ids are 0 to 99"));
  EXPECT_EQ(user_error_of([&] { sampler({damaged}, options).micro_batch(0, 4, 2); }), sentence);
}

TEST_F(Samples, RefusesDataThatIsTooShort) {
  const auto data = source("x", {{1, 2, 3, 4}});
  EXPECT_TRUE(contains(
      user_error_of([&] { sampler({data}, {.sequence = 4}); }),
      "has 4 tokens, but a sample of data.sequence = 4 needs 5; the longest sequence it allows is 3"));
  EXPECT_NO_THROW(sampler({data}, {.sequence = 3}));
  EXPECT_THROW(sampler({data}, {.sequence = 0}), UserError);
  const auto made = sampler({data}, {.sequence = 3});
  EXPECT_TRUE(contains(user_error_of([&] { made.micro_batch(0, 1ll << 30, 0); }), "rows"));
}

TEST_F(Samples, TheTraceNamesDocumentsAndSpans) {
  const auto made = sampler({source("x", {{1, 2, 3}, {4, 5}, {6, 7, 8}})},
                            {.sequence = 4, .order = SampleOrder::sequential});
  const auto x = folder_ / "x";
  EXPECT_EQ(trace_text(made, 0, 2),
            "sample 0: epoch 0, source 0, its sample 0, tokens [0, 4], 3 targets\n"
            "  document 0 of " +
                x +
                ": its tokens [0, 3) at rows [0, 3)\n"
                "  document 1 of " +
                x +
                ": its tokens [0, 1) at rows [3, 4)\n"
                "sample 1: epoch 1, source 0, its sample 0, tokens [0, 4], 3 targets\n"
                "  document 0 of " +
                x +
                ": its tokens [0, 3) at rows [0, 3)\n"
                "  document 1 of " +
                x + ": its tokens [0, 1) at rows [3, 4)\n");
}

}  // namespace
}  // namespace fivefold
