#include "data/llmc_file.h"

#include <algorithm>
#include <array>
#include <mutex>

#include "core/error.h"
#include "data/content_hash.h"
#include "data/stored_ids.h"

namespace fivefold {
namespace {

constexpr std::int64_t kHeaderBytes = 256 * 4;
constexpr std::int32_t kEvaluationMagic = 20240522;

struct Variant {
  std::int32_t magic, version;
  IdKind kind;
  std::int64_t vocab;
  std::int32_t delimiter;
  const char* tokenizer;
};
constexpr std::array<Variant, 2> kVariants = {{
    {20240520, 1, IdKind::u16, 50257, 50256, "gpt2"},
    {20240801, 7, IdKind::u32, 128256, 128000, "llama3"},
}};

const Variant* variant_of(std::int32_t magic) {
  const auto found =
      std::find_if(kVariants.begin(), kVariants.end(), [&](const auto& v) { return v.magic == magic; });
  return found == kVariants.end() ? nullptr : found;
}

// Token count of a whole file. The header's count has 32 bits and is read as unsigned.
std::int64_t checked_tokens(const MappedFile& file, const Variant& variant) {
  const auto& path = file.path();
  if (file.size() < kHeaderBytes)
    throw UserError(
        str("'", path, "' is truncated: ", file.size(), " bytes, an llm.c header alone has ", kHeaderBytes));
  const auto version = file.get<std::int32_t>(4);
  if (version != variant.version)
    throw UserError(str("'", path, "' has version ", version, " of the llm.c format ", variant.magic,
                        ", known is version ", variant.version));
  const std::int64_t tokens = file.get<std::uint32_t>(8);
  const std::int64_t expected = kHeaderBytes + tokens * size_of(variant.kind);
  if (file.size() != expected)
    throw UserError(str("'", path, "' is ", file.size() < expected ? "truncated" : "too long", ": ",
                        file.size(), " bytes, its llm.c header says ", tokens, " tokens in ", expected));
  if (tokens == 0) throw UserError(str("'", path, "' holds no token"));
  return tokens;
}

TokenFileInfo info_of(const MappedFile& file, const Variant& variant) {
  return {.path = file.path(),
          .format = "llm.c",
          .tokens = checked_tokens(file, variant),
          .vocab = variant.vocab,
          .token_bytes = size_of(variant.kind),
          .tokenizer = variant.tokenizer,
          .tokenizer_hash = ""};
}

class LlmcFile final : public TokenFile {
 public:
  LlmcFile(std::unique_ptr<MappedFile> file, const Variant& variant)
      : TokenFile(info_of(*file, variant)), file_(std::move(file)), variant_(variant) {}

  std::string hash() const override { return hex16(sampled_hash(*file_)); }
  std::int64_t documents() const override { return static_cast<std::int64_t>(begins().size()) - 1; }
  std::int64_t document_begin(std::int64_t document) const override {
    return begins()[static_cast<std::size_t>(document)];
  }
  std::int64_t stored_token(std::int64_t token) const override {
    return stored_id(*file_, kHeaderBytes, variant_.kind, token);
  }
  // Looks at the window only: samples can be cut without a scan of the file.
  void document_starts(std::int64_t first, std::int64_t count,
                       std::vector<std::int64_t>& starts) const override {
    for (std::int64_t t = first; t < first + count; ++t)
      if (t == 0 || stored_token(t) == variant_.delimiter) starts.push_back(t);
  }

 protected:
  void copy_tokens(std::int64_t first, std::span<std::int32_t> out) const override {
    copy_ids(*file_, kHeaderBytes, variant_.kind, first, out);
  }

 private:
  // The begin of each document and the end of the last, found by one scan when first asked for.
  const std::vector<std::int64_t>& begins() const {
    std::call_once(scanned_, [this] {
      document_starts(0, tokens(), begins_);
      begins_.push_back(tokens());
    });
    return begins_;
  }

  std::unique_ptr<MappedFile> file_;
  const Variant& variant_;
  mutable std::once_flag scanned_;
  mutable std::vector<std::int64_t> begins_;
};

}  // namespace

bool is_llmc_file(const MappedFile& file) {
  if (file.size() < 8) return false;
  const auto magic = file.get<std::int32_t>(0);
  return magic == kEvaluationMagic || variant_of(magic) != nullptr;
}

std::shared_ptr<const TokenFile> open_llmc_file(std::unique_ptr<MappedFile> file) {
  const auto magic = file->get<std::int32_t>(0);
  if (magic == kEvaluationMagic)
    throw UserError(
        str("'", file->path(), "' is an llm.c evaluation file (multiple choice), not a token file"));
  const auto* variant = variant_of(magic);
  FF_CHECK(variant != nullptr, file->path(), ": magic ", magic);
  return std::make_shared<LlmcFile>(std::move(file), *variant);
}

}  // namespace fivefold
