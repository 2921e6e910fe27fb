// llm.c token files: 256 int32 of header {magic, version, token count, ...}, then the ids. Magic 20240520
// version 1 holds GPT-2 ids as u16, magic 20240801 version 7 Llama-3 ids as u32. There is no document table:
// each document is preceded by the tokenizer's delimiter (GPT-2's <|endoftext|> 50256, Llama-3's
// <|begin_of_text|> 128000), so one begins there.
#pragma once
#include <memory>

#include "data/mapped_file.h"
#include "data/token_file.h"

namespace fivefold {

// True for the two training formats and for llm.c's evaluation files, which open_llmc_file refuses.
bool is_llmc_file(const MappedFile& file);
// Throws UserError for another version, an evaluation file, or a size at odds with the header.
std::shared_ptr<const TokenFile> open_llmc_file(std::unique_ptr<MappedFile> file);

}  // namespace fivefold
