// Failures of checkpoints, and how ranks agree on one: every rank throws the same error, so none waits for
// another.
#pragma once
#include <exception>
#include <functional>
#include <string>

#include "parallel/comm/communicator.h"

namespace fivefold {

// A checkpoint that is not what it was when it was written. The message names file, tensor, expected and
// found value.
class CorruptCheckpoint : public UserError {
 public:
  using UserError::UserError;
};

// Says something that a person should know.
using Warn = std::function<void(const std::string&)>;

// What `work` throws, as text that another rank can throw again; empty if it returned. `part` runs on this
// rank only.
std::string failure_of(const std::function<void()>& work);
// Throws the error of the text with the same type (UserError, CorruptCheckpoint or Error) under "`what`
// failed on rank r: ". No effect for an empty text.
void throw_failure(const std::string& failure, const std::string& what, int rank);

// Runs `work` on every rank of `comm`. When it throws anywhere, all ranks throw the error of the lowest such
// rank. Collective; each rank's result of work travels to all (small values only). A null `comm` is this
// process alone.
std::vector<std::string> together(Communicator* comm, const std::string& what,
                                  const std::function<std::string()>& work);
// Runs `work` on rank 0 and gives its result to all; its error is thrown on all.
std::string from_rank_0(Communicator* comm, const std::string& what,
                        const std::function<std::string()>& work);

}  // namespace fivefold
