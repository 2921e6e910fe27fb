// .txt files: one document a file, or documents between separators.
#include <cstring>

#include "core/error.h"
#include "data/documents.h"
#include "data/input_file.h"

namespace fivefold {
namespace {

std::size_t find(std::string_view text, std::string_view word) {
  const auto* found = static_cast<const char*>(::memmem(text.data(), text.size(), word.data(), word.size()));
  return found == nullptr ? std::string_view::npos : static_cast<std::size_t>(found - text.data());
}

std::int64_t read_whole(InputFile& input, DocumentSink& sink) {
  while (input.refill()) {
    sink.text(input.rest());
    input.consume(input.rest().size());
  }
  sink.end_document();
  return input.bytes_read();
}

}  // namespace

std::int64_t read_text_documents(const std::string& path, const std::string& separator, DocumentSink& sink) {
  FF_CHECK(separator.size() <= kMaxSeparatorBytes, separator.size());
  InputFile input(path);
  if (separator.empty()) return read_whole(input, sink);
  bool open = true;  // false only behind a separator, while no byte has followed
  while (input.refill()) {
    for (auto at = find(input.rest(), separator); at != std::string_view::npos;
         at = find(input.rest(), separator)) {
      sink.text(input.rest().substr(0, at));
      sink.end_document();
      input.consume(at + separator.size());
      open = false;
    }
    // The last bytes may be the begin of a separator.
    if (input.rest().size() < separator.size()) continue;
    const auto sure = input.rest().substr(0, input.rest().size() - (separator.size() - 1));
    sink.text(sure);
    input.consume(sure.size());
    open = true;
  }
  sink.text(input.rest());
  if (open || !input.rest().empty()) sink.end_document();
  return input.bytes_read();
}

}  // namespace fivefold
