// .jsonl files: a streaming reader of one object a line that keeps nothing but the current piece of text.
#include <array>
#include <cstdint>

#include "core/error.h"
#include "data/documents.h"
#include "data/input_file.h"

namespace fivefold {
namespace {

constexpr int kMaxDepth = 256;

// True for the bytes a JSON string cannot hold as they are: quote, backslash, control characters.
constexpr std::array<bool, 256> kSpecial = [] {
  std::array<bool, 256> special{};
  for (std::size_t c = 0; c < 32; ++c) special[c] = true;
  special['"'] = special['\\'] = true;
  return special;
}();

void append_utf8(std::uint32_t code, std::string& out) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((code >> shift) & 0x3f)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0 | (code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0 | (code >> 12));
    tail(6), tail(0);
  } else {
    out += static_cast<char>(0xf0 | (code >> 18));
    tail(12), tail(6), tail(0);
  }
}

class JsonLines {
 public:
  JsonLines(const std::string& path, DocumentSink& sink) : input_(path), sink_(sink) {}

  std::int64_t read() {
    for (int c = after_blanks(); c >= 0; c = after_blanks()) {
      if (c != '\n') read_object_line();
      if (peek() >= 0) take();  // the line feed
      ++line_;
    }
    return input_.bytes_read();
  }

 private:
  static constexpr int kEnd = -1;

  [[noreturn]] void refuse(const std::string& what) const {
    throw UserError(str(input_.path(), ", line ", line_, ": ", what));
  }
  int peek() {
    if (input_.rest().empty() && !input_.refill()) return kEnd;
    return static_cast<unsigned char>(input_.rest().front());
  }
  void take() { input_.consume(1); }
  // The next character that is no blank; a line feed is none.
  int after_blanks() {
    int c = peek();
    for (; c == ' ' || c == '\t' || c == '\r'; c = peek()) take();
    return c;
  }
  void expect(char wanted) {
    const int c = after_blanks();
    if (c == kEnd || c == '\n') refuse(str("the line ends where '", wanted, "' must come"));
    if (c != wanted) refuse(str("'", static_cast<char>(c), "' where '", wanted, "' must come"));
    take();
  }

  void read_object_line() {
    if (after_blanks() != '{') refuse("a line must be one JSON object, {\"text\": \"...\"}");
    bool found = false;
    read_members([&] {
      std::string key;  // its first five bytes tell "text" from everything else
      read_string([&](std::string_view piece) { key += piece.substr(0, 5 - key.size()); });
      expect(':');
      if (key == "text") {
        if (found) refuse("the member \"text\" comes twice");
        found = true;
        read_document();
      } else {
        skip_value(0);
      }
    });
    if (!found) refuse("the object has no member \"text\"");
    const int c = after_blanks();
    if (c != '\n' && c != kEnd) refuse(str("'", static_cast<char>(c), "' follows the object"));
  }
  void read_document() {
    if (after_blanks() != '"') refuse("the member \"text\" is no string");
    read_string([&](std::string_view piece) { sink_.text(piece); });
    sink_.end_document();
  }
  // From '{' or '[' to its end; `member` reads one.
  template <class Member>
  void read_members(Member&& member) {
    const char close = peek() == '{' ? '}' : ']';
    take();
    if (after_blanks() == close) return take();
    for (;;) {
      after_blanks();
      member();
      if (after_blanks() == close) return take();
      expect(',');
    }
  }
  void skip_value(int depth) {
    if (depth > kMaxDepth) refuse(str("values are nested more than ", kMaxDepth, " deep"));
    const int c = after_blanks();
    if (c == '"') return read_string([](std::string_view) {});
    if (c == '[') return read_members([&] { skip_value(depth + 1); });
    if (c != '{') return skip_scalar();
    read_members([&] {
      read_string([](std::string_view) {});
      expect(':');
      skip_value(depth + 1);
    });
  }
  // A number, true, false or null.
  void skip_scalar() {
    std::string word;
    constexpr std::string_view kEnders = ",]} \t\r\n";
    for (int c = peek(); c != kEnd && kEnders.find(static_cast<char>(c)) == kEnders.npos && word.size() < 512;
         c = peek()) {
      word += static_cast<char>(c);
      take();
    }
    const bool number = !word.empty() && word.find_first_not_of("+-.0123456789eE") == word.npos;
    if (!number && word != "true" && word != "false" && word != "null")
      refuse(str("'", word, "' is no JSON value"));
  }

  // From quote to quote; calls on_piece with the unescaped text, piece by piece.
  template <class OnPiece>
  void read_string(OnPiece&& on_piece) {
    if (peek() != '"') refuse("a string must begin with '\"'");
    take();
    for (int c = peek(); c != '"'; c = peek()) {
      if (c == kEnd || c == '\n') refuse("the line ends inside a string");
      if (c == '\\') {
        on_piece(read_escape());
        continue;
      }
      const auto rest = input_.rest();
      std::size_t plain = 0;
      while (plain < rest.size() && !kSpecial[static_cast<unsigned char>(rest[plain])]) ++plain;
      if (plain == 0) refuse(str("control character ", c, " inside a string must be written as \\u00XX"));
      on_piece(rest.substr(0, plain));
      input_.consume(plain);
    }
    take();
  }
  // One escape sequence, or two that form a surrogate pair; valid until the next call.
  std::string_view read_escape() {
    take();
    const int c = peek();
    if (c == kEnd || c == '\n') refuse("the line ends inside a string");
    take();
    unescaped_.clear();
    constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
    const auto simple = kFrom.find(static_cast<char>(c));
    if (simple != kFrom.npos) {
      unescaped_ += kTo[simple];
    } else if (c == 'u') {
      read_unicode();
    } else {
      refuse(str("\\", static_cast<char>(c), " is no escape sequence"));
    }
    return unescaped_;
  }
  // Behind "\u". A high surrogate needs the low one of its pair as the very next escape.
  void read_unicode() {
    constexpr std::uint32_t kReplacement = 0xfffd;
    std::uint32_t unit = read_hex4();
    while (unit >= 0xd800 && unit < 0xdc00 && next_is_unicode_escape()) {
      const std::uint32_t low = read_hex4();
      if (low >= 0xdc00 && low < 0xe000)
        return append_utf8(0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00), unescaped_);
      append_utf8(kReplacement, unescaped_);
      unit = low;
    }
    append_utf8(unit >= 0xd800 && unit < 0xe000 ? kReplacement : unit, unescaped_);
  }
  // Consumes "\u" where it follows. The buffer is refilled so that both characters can be seen at once.
  bool next_is_unicode_escape() {
    while (input_.rest().size() < 2 && input_.refill()) {
    }
    if (input_.rest().substr(0, 2) != "\\u") return false;
    input_.consume(2);
    return true;
  }
  std::uint32_t read_hex4() {
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i) {
      const int c = peek();
      constexpr std::string_view kDigits = "0123456789abcdef";
      const auto digit =
          c == kEnd ? kDigits.npos : kDigits.find(static_cast<char>(c >= 'A' && c <= 'F' ? c + 32 : c));
      if (digit == kDigits.npos) refuse("\\u needs four hexadecimal digits");
      value = value * 16 + static_cast<std::uint32_t>(digit);
      take();
    }
    return value;
  }

  InputFile input_;
  DocumentSink& sink_;
  std::int64_t line_ = 1;
  std::string unescaped_;
};

}  // namespace

std::int64_t read_json_documents(const std::string& path, DocumentSink& sink) {
  return JsonLines(path, sink).read();
}

}  // namespace fivefold
