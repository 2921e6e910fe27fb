// A failure travels as one letter for its type and the message.
#include "checkpoint/failure.h"

namespace fivefold {

std::string failure_of(const std::function<void()>& work) {
  try {
    work();
    return {};
  } catch (const CorruptCheckpoint& e) {
    return str('C', e.what());
  } catch (const UserError& e) {
    return str('U', e.what());
  } catch (const std::exception& e) {
    return str('E', e.what());
  }
}

void throw_failure(const std::string& failure, const std::string& what, int rank) {
  if (failure.empty()) return;
  const std::string message = str(what, " failed on rank ", rank, ": ", failure.substr(1));
  if (failure[0] == 'C') throw CorruptCheckpoint(message);
  if (failure[0] == 'U') throw UserError(message);
  throw Error(message);
}

std::vector<std::string> together(Communicator* comm, const std::string& what,
                                  const std::function<std::string()>& work) {
  if (!comm) return {work()};
  std::string result;
  const std::string failure = failure_of([&] { result = work(); });
  auto replies = comm->gather_bytes(failure.empty() ? "+" + result : "-" + failure);
  for (std::size_t r = 0; r < replies.size(); ++r) {
    if (replies[r].at(0) == '-') throw_failure(replies[r].substr(1), what, static_cast<int>(r));
    replies[r].erase(0, 1);
  }
  return replies;
}

std::string from_rank_0(Communicator* comm, const std::string& what,
                        const std::function<std::string()>& work) {
  if (!comm) return work();
  std::string reply;
  if (comm->rank() == 0) {
    const std::string failure = failure_of([&] { reply = "+" + work(); });
    if (!failure.empty()) reply = "-" + failure;
  }
  reply = comm->broadcast_bytes(reply, 0);
  if (reply.at(0) == '-') throw_failure(reply.substr(1), what, 0);
  return reply.substr(1);
}

}  // namespace fivefold
