// Opens data.train and data.valid.
#include "launcher/train_data.h"

#include "data/tokenizer.h"

namespace fivefold {

namespace {

void check_sources(const std::vector<Source>& sources, const Config& config) {
  for (const auto& source : sources) {
    const auto& info = source.file->info();
    check_vocab(config.model, info.vocab, info.path);
    if (config.data.tokenizer.empty()) continue;
    const auto wanted = make_tokenizer(config.data.tokenizer)->hash();
    if (!info.tokenizer_hash.empty() && info.tokenizer_hash != wanted)
      throw UserError(str("data.tokenizer=", config.data.tokenizer, " has hash ", wanted, ", but ", info.path,
                          " was made by tokenizer '", info.tokenizer, "' with hash ", info.tokenizer_hash));
  }
}

Sampler open(const std::string& key, const std::string& list, const Config& config, SampleOrder order) {
  if (list.empty()) throw UserError(str(key, " is not set: name a token file made by 'fivefold data build'"));
  auto sources = open_data_set(parse_sources(list));
  check_sources(sources, config);
  return Sampler(std::move(sources), {.seed = config.run.seed,
                                      .sequence = sequence_length(config),
                                      .vocab = config.model.vocab,
                                      .documents = config.data.documents,
                                      .order = order});
}

}  // namespace

TrainData open_train_data(const Config& config) {
  TrainData out{
      .train = open("data.train", config.data.train, config, config.data.order), .valid = {}, .identity = {}};
  if (!config.data.valid.empty())
    out.valid.emplace(open("data.valid", config.data.valid, config, SampleOrder::sequential));
  out.identity = {.data_hash = hash_of(out.train.sources()),
                  .tokenizer_hash = out.train.sources().front().file->info().tokenizer_hash};
  return out;
}

}  // namespace fivefold
