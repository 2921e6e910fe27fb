#include "data/sampler.h"

#include <algorithm>
#include <limits>

#include "core/error.h"

namespace fivefold {
namespace {

std::vector<double> weights_of(const std::vector<Source>& sources) {
  std::vector<double> weights;
  for (const auto& source : sources) weights.push_back(source.weight);
  return weights;
}

void check_source(const TokenFileInfo& info, const SamplerOptions& options) {
  if (info.tokens <= options.sequence)
    throw UserError(str("'", info.path, "' has ", info.tokens,
                        " tokens, but a sample of data.sequence = ", options.sequence, " needs ",
                        options.sequence + 1, "; the longest sequence it allows is ", info.tokens - 1));
  if (options.vocab > 0 && info.vocab > options.vocab)
    throw UserError(str("'", info.path, "' has ids up to ", info.vocab - 1, ", but model.vocab is ",
                        options.vocab, "; it must be at least ", info.vocab));
}

}  // namespace

Sampler::Sampler(std::vector<Source> sources, const SamplerOptions& options)
    : sources_(std::move(sources)), options_(options), mixture_(weights_of(sources_)) {
  if (options_.sequence < 1)
    throw UserError(str("data.sequence must be at least 1 token, not ", options_.sequence));
  for (const auto& source : sources_) check_source(source.file->info(), options_);
}

std::int64_t Sampler::samples_in(std::int64_t source) const {
  return (sources_[static_cast<std::size_t>(source)].file->tokens() - 1) / options_.sequence;
}

std::int64_t Sampler::samples() const {
  std::int64_t total = 0;
  for (std::size_t s = 0; s < sources_.size(); ++s) total += samples_in(static_cast<std::int64_t>(s));
  return total;
}

SamplePlace Sampler::locate(std::int64_t i) const {
  const auto place = mixture_.locate(i);
  const std::int64_t size = samples_in(place.source);
  const std::int64_t epoch = place.index / size, turn = place.index % size;
  if (options_.order == SampleOrder::sequential) return {place.source, epoch, turn};
  return {place.source, epoch, Permutation(options_.seed, place.source, epoch, size)(turn)};
}

void Sampler::cuts_of(const SamplePlace& place, std::vector<std::int64_t>& cuts) const {
  cuts.clear();
  if (options_.documents == Documents::join) return;
  const std::int64_t begin = place.sample * options_.sequence;
  sources_[static_cast<std::size_t>(place.source)].file->document_starts(begin + 1, options_.sequence, cuts);
  for (auto& cut : cuts) cut -= begin;
}

void Sampler::append_sample(MicroBatch& batch, std::int64_t i, std::vector<std::int32_t>& ids,
                            std::vector<std::int64_t>& starts) const {
  const std::int64_t length = options_.sequence, base = batch.rows();
  const auto place = locate(i);
  ids.resize(static_cast<std::size_t>(length + 1));
  sources_[static_cast<std::size_t>(place.source)].file->read(place.sample * length, ids, options_.vocab);
  cuts_of(place, starts);
  starts.push_back(length + 1);  // behind the last target, so that there is always a next one
  batch.tokens.insert(batch.tokens.end(), ids.begin(), ids.end() - 1);
  batch.targets.insert(batch.targets.end(), ids.begin() + 1, ids.end());
  std::int64_t document = 0;  // begin of the row's document within the sample
  auto next = starts.begin();
  for (std::int64_t j = 0; j < length; ++j) {
    if (j == *next) document = *next++;
    if (j + 1 == *next) batch.targets[static_cast<std::size_t>(base + j)] = -1;
    batch.position.push_back(static_cast<std::int32_t>(j - document));
    batch.first_visible.push_back(static_cast<std::int32_t>(base + document));
    batch.q_index.push_back(static_cast<std::int32_t>(base + j));
    batch.k_index.push_back(static_cast<std::int32_t>(base + j));
  }
  batch.valid_targets += length - static_cast<std::int64_t>(starts.size()) + 1;
}

MicroBatch Sampler::micro_batch(std::int64_t first_sample, std::int64_t count,
                                std::int64_t real_count) const {
  FF_CHECK(first_sample >= 0 && real_count >= 0 && real_count <= count, first_sample, ' ', count, ' ',
           real_count);
  if (count >= std::numeric_limits<std::int32_t>::max() / options_.sequence)
    throw UserError(str("a micro-batch of ", count, " sequences of ", options_.sequence,
                        " tokens has more than ", std::numeric_limits<std::int32_t>::max(),
                        " rows; the largest that fits is ",
                        std::numeric_limits<std::int32_t>::max() / options_.sequence - 1, " sequences"));
  const std::int64_t rows = count * options_.sequence;
  MicroBatch batch{.sequences = count, .sequence = options_.sequence, .index_end = rows};
  for (auto* values :
       {&batch.tokens, &batch.targets, &batch.position, &batch.q_index, &batch.first_visible, &batch.k_index})
    values->reserve(static_cast<std::size_t>(rows));
  std::vector<std::int32_t> ids;
  std::vector<std::int64_t> starts;
  for (std::int64_t b = 0; b < real_count; ++b) append_sample(batch, first_sample + b, ids, starts);
  for (std::int64_t row = batch.rows(); row < rows; ++row)
    append_padding_row(batch, static_cast<std::int32_t>(row));
  return batch;
}

std::int64_t Sampler::valid_targets(std::int64_t first_sample, std::int64_t count) const {
  std::vector<std::int64_t> cuts;
  std::int64_t total = 0;
  for (std::int64_t i = first_sample; i < first_sample + count; ++i) {
    if (options_.documents == Documents::mask) cuts_of(locate(i), cuts);
    total += options_.sequence - static_cast<std::int64_t>(cuts.size());
  }
  return total;
}

}  // namespace fivefold
