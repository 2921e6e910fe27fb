// Writes a native token file as a stream: memory use does not grow with tokens or documents.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/content_hash.h"
#include "data/native_file.h"
#include "data/output_file.h"

namespace fivefold {

// What a file's header records besides its content.
struct TokenFileIdentity {
  std::string tokenizer;       // name, at most 40 bytes
  std::string tokenizer_hash;  // 16 hexadecimal digits
  std::int64_t vocab = 0;
  std::int64_t end_of_document = -1;
};

class TokenWriter {
 public:
  TokenWriter(const std::string& path, const TokenFileIdentity& identity);
  std::int64_t tokens() const { return header_.tokens; }
  std::int64_t documents() const { return header_.documents; }
  // Ids of the current document.
  void append(std::span<const std::int32_t> ids);
  // Appends the end-of-document id, where there is one, and closes the document, which must not be empty.
  void end_document();
  // Writes the table and the header and gives the file its name. At least one document must have been
  // written.
  void commit();

 private:
  void put(std::span<const std::int32_t> ids);
  template <class Stored>
  void store(std::span<const std::int32_t> ids);
  void append_table();

  NativeHeader header_;
  OutputFile file_;
  OutputFile ends_;  // the document table until commit; never committed under its own name
  StreamHash hash_;
  std::int64_t table_tokens_ = 0;  // tokens of the closed documents
  std::vector<std::byte> staging_;
};

}  // namespace fivefold
