// Reads and hashes everything a checkpoint holds.
#pragma once
#include <string>
#include <vector>

#include "checkpoint/manifest.h"

namespace fivefold {

// What is wrong, a sentence each; empty if all is as it was written. The rules are those of loading: the same
// functions read manifest, files and pieces.
std::vector<std::string> verify_checkpoint(FileSystem& fs, const Path& dir);

}  // namespace fivefold
