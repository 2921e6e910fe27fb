// Several token files end to end as one.
#include <algorithm>

#include "core/error.h"
#include "data/content_hash.h"
#include "data/token_file.h"

namespace fivefold {
namespace {

using Parts = std::vector<std::shared_ptr<const TokenFile>>;

// What all parts agree on; throws UserError where tokenizers differ.
TokenFileInfo joined_info(const Parts& parts) {
  TokenFileInfo all = parts.front()->info();
  all.format = "joined";
  all.tokens = 0;
  for (const auto& part : parts) {
    const auto& info = part->info();
    require_same_tokenizer(parts.front()->info(), info);
    all.tokens += info.tokens;
    all.vocab = all.vocab == 0 || info.vocab == 0 ? 0 : std::max(all.vocab, info.vocab);
  }
  return all;
}

class JoinedFile final : public TokenFile {
 public:
  explicit JoinedFile(Parts parts) : TokenFile(joined_info(parts)), parts_(std::move(parts)) {
    for (const auto& part : parts_)
      token_ends_.push_back((token_ends_.empty() ? 0 : token_ends_.back()) + part->tokens());
  }

  std::string hash() const override {
    std::string all;
    for (const auto& part : parts_) all += part->hash();
    return hex16(hash_text(all));
  }
  std::int64_t documents() const override {
    std::int64_t total = 0;
    for (const auto& part : parts_) total += part->documents();
    return total;
  }
  std::int64_t document_begin(std::int64_t document) const override {
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      if (document < parts_[p]->documents()) return begin_of(p) + parts_[p]->document_begin(document);
      document -= parts_[p]->documents();
    }
    return tokens();
  }
  std::int64_t stored_token(std::int64_t token) const override {
    const auto p = part_of(token);
    return parts_[p]->stored_token(token - begin_of(p));
  }
  // The place in the part itself.
  TokenPlace place_of(std::int64_t token) const override {
    const auto p = part_of(token);
    return parts_[p]->place_of(token - begin_of(p));
  }
  void document_starts(std::int64_t first, std::int64_t count,
                       std::vector<std::int64_t>& starts) const override {
    for_each_piece(first, count, [&](std::size_t p, std::int64_t from, std::int64_t size, std::int64_t) {
      const auto old = static_cast<std::ptrdiff_t>(starts.size());
      parts_[p]->document_starts(from, size, starts);
      std::for_each(starts.begin() + old, starts.end(), [&](auto& start) { start += begin_of(p); });
    });
  }
  void read(std::int64_t first, std::span<std::int32_t> out, std::int64_t vocab) const override {
    const auto count = static_cast<std::int64_t>(out.size());
    FF_CHECK(first >= 0 && first <= tokens() - count, "tokens [", first, ", +", count, ") of ", tokens());
    for_each_piece(first, count, [&](std::size_t p, std::int64_t from, std::int64_t size, std::int64_t done) {
      parts_[p]->read(from, out.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(size)),
                      vocab);
    });
  }
  void check() const override {
    for (const auto& part : parts_) part->check();
  }

 protected:
  void copy_tokens(std::int64_t first, std::span<std::int32_t> out) const override { read(first, out, 0); }

 private:
  std::size_t part_of(std::int64_t token) const {
    return static_cast<std::size_t>(std::upper_bound(token_ends_.begin(), token_ends_.end(), token) -
                                    token_ends_.begin());
  }
  std::int64_t begin_of(std::size_t p) const { return p == 0 ? 0 : token_ends_[p - 1]; }
  // Calls f(part, first token in the part, tokens, tokens done before) for the parts of [first, first +
  // count).
  template <class F>
  void for_each_piece(std::int64_t first, std::int64_t count, F&& f) const {
    for (std::int64_t done = 0; done < count;) {
      const auto p = part_of(first + done);
      const std::int64_t from = first + done - begin_of(p);
      const std::int64_t size = std::min(count - done, parts_[p]->tokens() - from);
      f(p, from, size, done);
      done += size;
    }
  }

  Parts parts_;
  std::vector<std::int64_t> token_ends_;
};

}  // namespace

void require_same_tokenizer(const TokenFileInfo& a, const TokenFileInfo& b) {
  const auto differ = [](const auto& x, const auto& y) { return !x.empty() && !y.empty() && x != y; };
  if (differ(a.tokenizer, b.tokenizer) || differ(a.tokenizer_hash, b.tokenizer_hash))
    throw UserError(str("files of one data set need one tokenizer, but '", a.path, "' was made with '",
                        a.tokenizer, "' ", a.tokenizer_hash, " and '", b.path, "' with '", b.tokenizer, "' ",
                        b.tokenizer_hash));
}

std::shared_ptr<const TokenFile> join_token_files(Parts parts) {
  FF_CHECK(!parts.empty(), "no file to join");
  if (parts.size() == 1) return parts.front();
  return std::make_shared<JoinedFile>(std::move(parts));
}

}  // namespace fivefold
