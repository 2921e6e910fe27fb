// Megatron-LM's indexed data set: PREFIX.bin holds the ids, PREFIX.idx says where sequences and documents
// lie. Index, little-endian: "MMIDIDX" and two zero bytes, u64 version 1, u8 element type (1 u8, 2 i8, 3 i16,
// 4 i32, 5 i64, 8 u16), u64 sequences, u64 entries of the document table, i32 length per sequence in tokens,
// i64 byte offset per sequence in the .bin, i64 document table: the number of the sequence that begins each
// document, closed by `sequences`. Whether a document ends in an end-of-document id is the writer's choice
// and is not recorded; nor is the vocabulary.
#pragma once
#include <memory>

#include "data/token_file.h"

namespace fivefold {

// True where `path` exists and begins like a Megatron index.
bool is_megatron_index(const std::string& path);
// Opens prefix.idx and prefix.bin. Sequences must lie end to end in order, as Megatron's builder and merger
// write them. Throws UserError for anything else.
std::shared_ptr<const TokenFile> open_megatron_file(const std::string& prefix);

}  // namespace fivefold
