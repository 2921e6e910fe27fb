// How predictable a text is to the simplest model: a table of which token follows which. A trained model must
// do better.
#pragma once
#include "data/token_file.h"

namespace fivefold {

// Conditional entropy of a token given the one before it, in nats a token, of the file's own pair counts: no
// bigram table, however it is smoothed, has a lower loss on this text. Throws UserError for a vocabulary
// above 4096 (the table is dense) and for fewer than two tokens.
double bigram_entropy(const TokenFile& file);

}  // namespace fivefold
