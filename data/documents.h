// Text files as streams of documents, in memory that depends on neither file nor document size.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace fivefold {

// Receives documents piece by piece; a document without a text() call, or with empty pieces only, is empty.
class DocumentSink {
 public:
  virtual ~DocumentSink() = default;
  virtual void text(std::string_view piece) = 0;
  virtual void end_document() = 0;
};

// A .txt file: one document, or with a separator (not empty) the texts between its occurrences, which belong
// to no document. Nothing follows a separator at the very end. Returns the bytes read.
std::int64_t read_text_documents(const std::string& path, const std::string& separator, DocumentSink& sink);

// A .jsonl file: one JSON object a line, its "text" member is a document. Blank lines are skipped; a lone
// surrogate escape becomes U+FFFD. Throws UserError with file and line for anything that is no such line.
// Returns the bytes read.
std::int64_t read_json_documents(const std::string& path, DocumentSink& sink);

// Longest separator that read_text_documents takes.
constexpr std::size_t kMaxSeparatorBytes = 64 << 10;

}  // namespace fivefold
