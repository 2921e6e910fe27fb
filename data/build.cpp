#include "data/build.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/philox.h"
#include "data/documents.h"
#include "data/mapped_file.h"
#include "data/tail_split.h"
#include "data/token_writer.h"
#include "data/tokenizer.h"

namespace fivefold {
namespace {

// Text is encoded in pieces that stay in the cache together with their ids.
constexpr std::size_t kPieceBytes = 32 << 10;

TokenFileIdentity identity_of(const Tokenizer& tokenizer) {
  return {tokenizer.name(), tokenizer.hash(), tokenizer.vocab_size(), tokenizer.end_of_document()};
}

bool is_jsonl(const std::string& path) { return std::filesystem::path(path).extension() == ".jsonl"; }

void check_inputs(const BuildOptions& options) {
  if (options.inputs.empty()) throw UserError("data build needs at least one .txt or .jsonl file");
  for (const auto& input : options.inputs) {
    const auto extension = std::filesystem::path(input).extension();
    if (!file_exists(input)) throw UserError(cannot_open(input, ENOENT));
    if (std::filesystem::is_directory(input))
      throw UserError(str("'", input, "' is a folder: name the .txt and .jsonl files in it"));
    if (extension != ".txt" && extension != ".jsonl")
      throw UserError(str("'", input, "' is neither .txt nor .jsonl: rename it to the one it is"));
    for (const auto& output : {options.out, options.valid_out})
      if (!output.empty() && file_exists(output) && std::filesystem::equivalent(input, output))
        throw UserError(str("'", input, "' is both an input and an output"));
  }
}

void check_options(const BuildOptions& options) {
  if (options.out.empty()) throw UserError("data build needs an output file, --out FILE");
  if (options.separator.size() > kMaxSeparatorBytes)
    throw UserError(
        str("a separator has at most ", kMaxSeparatorBytes, " bytes, not ", options.separator.size()));
  check_inputs(options);
  if (options.valid_out.empty() != (options.valid_fraction == 0.0))
    throw UserError("a held-out part needs both a file and a fraction (--valid-out FILE --valid-fraction F)");
  if (options.valid_out.empty()) return;
  if (!(options.valid_fraction > 0.0 && options.valid_fraction < 1.0))
    throw UserError(str("the held-out fraction must lie between 0 and 1, not ", options.valid_fraction));
  if (std::filesystem::absolute(options.valid_out).lexically_normal() ==
      std::filesystem::absolute(options.out).lexically_normal())
    throw UserError(str("the held-out part and the rest need two files, not '", options.out, "' twice"));
}

// Resolves `automatic`; refuses a tail where files hold many documents.
HoldOut hold_out_of(const BuildOptions& options) {
  const auto whole = [&](const auto& path) { return options.separator.empty() && !is_jsonl(path); };
  if (options.hold_out == HoldOut::automatic)
    return options.inputs.size() == 1 && whole(options.inputs.front()) ? HoldOut::tail : HoldOut::documents;
  if (options.hold_out == HoldOut::tail && !std::all_of(options.inputs.begin(), options.inputs.end(), whole))
    throw UserError(
        "the tail of a file can be held out only where every input is a .txt file without separator");
  return options.hold_out;
}

// Encodes documents into the training file, the held-out ones into the other.
class Builder final : public DocumentSink {
 public:
  Builder(const BuildOptions& options, const Tokenizer& tokenizer)
      : options_(options), tokenizer_(tokenizer), train_(options.out, identity_of(tokenizer)) {
    if (!options.valid_out.empty()) valid_.emplace(options.valid_out, identity_of(tokenizer));
  }

  // Sends the documents that follow to one file: the tail split decides for itself.
  void force(bool held_out) { forced_ = held_out; }

  void text(std::string_view piece) override {
    for (; !piece.empty(); piece.remove_prefix(std::min(piece.size(), kPieceBytes))) {
      if (current_ == nullptr) current_ = &target();
      encode(piece.substr(0, kPieceBytes), false);
    }
  }
  void end_document() override {
    if (current_ == nullptr) {
      ++report_.empty_documents;
      return;
    }
    encode({}, true);
    current_->end_document();
    current_ = nullptr;
    ++kept_;
  }
  void add_bytes(std::int64_t bytes) { report_.bytes_read += bytes; }

  BuildReport commit() {
    const std::int64_t held_out = valid_ ? valid_->documents() : 0;
    if (kept_ == 0)
      throw UserError(str("the inputs hold no text (", report_.empty_documents, " empty documents)"));
    if (valid_ && (held_out == 0 || held_out == kept_))
      throw UserError(str(held_out, " of ", kept_, " documents would be held out at fraction ",
                          options_.valid_fraction,
                          ": give another fraction, or hold out the tail of each file"));
    report_.train = {options_.out, train_.tokens(), train_.documents()};
    if (valid_) report_.valid = {options_.valid_out, valid_->tokens(), valid_->documents()};
    train_.commit();
    if (valid_) valid_->commit();
    return report_;
  }

 private:
  TokenWriter& target() {
    if (!valid_) return train_;
    const bool held_out =
        forced_ ? *forced_ : is_held_out(options_.split_seed, kept_, options_.valid_fraction);
    return held_out ? *valid_ : train_;
  }
  void encode(std::string_view piece, bool last) {
    ids_.clear();
    if (!pending_.empty()) piece = pending_ += piece;
    const std::size_t done = tokenizer_.encode_prefix(piece, last, ids_);
    pending_ = std::string(piece.substr(done));
    current_->append(ids_);
  }

  const BuildOptions& options_;
  const Tokenizer& tokenizer_;
  TokenWriter train_;
  std::optional<TokenWriter> valid_;
  std::optional<bool> forced_;
  TokenWriter* current_ = nullptr;  // of the open document, from its first byte on
  std::int64_t kept_ = 0;           // documents that were not empty
  std::string pending_;             // text whose ids depend on what follows
  std::vector<std::int32_t> ids_;
  BuildReport report_;
};

// Splits the one document of a file in two at a byte.
class TailSink final : public DocumentSink {
 public:
  TailSink(Builder& builder, std::int64_t cut) : builder_(builder), until_cut_(cut) { builder_.force(false); }
  void text(std::string_view piece) override {
    const auto head = piece.substr(0, static_cast<std::size_t>(until_cut_));
    until_cut_ -= static_cast<std::int64_t>(head.size());
    builder_.text(head);
    if (head.size() == piece.size()) return;
    if (!std::exchange(behind_, true)) {
      builder_.end_document();
      builder_.force(true);
    }
    builder_.text(piece.substr(head.size()));
  }
  void end_document() override { builder_.end_document(); }

 private:
  Builder& builder_;
  std::int64_t until_cut_;
  bool behind_ = false;
};

void read_input(const std::string& path, const BuildOptions& options, HoldOut hold_out, Builder& builder) {
  if (is_jsonl(path)) return builder.add_bytes(read_json_documents(path, builder));
  if (options.valid_out.empty() || hold_out == HoldOut::documents)
    return builder.add_bytes(read_text_documents(path, options.separator, builder));
  TailSink tail(builder, tail_cut(path, options.valid_fraction));
  builder.add_bytes(read_text_documents(path, "", tail));
}

}  // namespace

bool is_held_out(std::uint64_t seed, std::int64_t document, double fraction) {
  return philox_uniform(seed, hash_name("data/held_out"), static_cast<std::uint64_t>(document)) < fraction;
}

BuildReport build_tokens(const BuildOptions& options) {
  return build_tokens(options, *make_tokenizer(options.tokenizer));
}

BuildReport build_tokens(const BuildOptions& options, const Tokenizer& tokenizer) {
  check_options(options);
  const HoldOut hold_out = hold_out_of(options);
  Builder builder(options, tokenizer);
  for (const auto& path : options.inputs) read_input(path, options, hold_out, builder);
  return builder.commit();
}

}  // namespace fivefold
