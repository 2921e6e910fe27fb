// What all MPI communicators of a rank share: operations under way and what moves them on, and host memory
// for operands that lie on a GPU. Included by mpi_*.cpp only.
#pragma once
#include <mpi.h>

#include <functional>
#include <list>
#include <map>

#include "parallel/comm/mpi_comm.h"

namespace fivefold {

// One transfer under way: messages, then the step that follows when all of them are done, which may post
// more.
struct Operation {
  std::vector<MPI_Request> requests;
  std::vector<std::int64_t> expected_bytes;  // per request; -1 where nothing is received
  std::function<bool()> ready;               // nothing goes on before it is true; may be empty
  std::function<void()> next;
  std::vector<Tensor> operands;  // alive as long as messages are
  LedgerId record = 0;
  Event on_device;    // of a transfer that ends on a GPU: after this the result is there
  bool done = false;  // `on_device` is known
};
using OperationPtr = std::shared_ptr<Operation>;

// Host memory that a GPU copies to and from, and the stream that it does so in.
struct Staging {
  struct Copies {
    Tensor out, in;
  };
  explicit Staging(Device device);
  // Host tensors like the operands (either may be absent); where one is a part of the other, so are they.
  Copies copies_of(const Tensor& out, const Tensor& in);
  std::function<bool()> when_reached(Event event) const;

  std::shared_ptr<Memory> memory;
  std::unique_ptr<Stream> stream;
};

class MpiRank {
 public:
  MpiRank(const MpiSession& session, const MpiOptions& options);
  const std::shared_ptr<Ledger>& ledger() const { return ledger_; }
  std::int64_t message_bytes() const { return message_bytes_; }
  int world_rank() const { return world_rank_; }

  // Host memory for others' values.
  Tensor room(std::int64_t count, DType dtype);
  Staging& staging(Device device);
  void start(OperationPtr operation);
  // Moves all operations on until this one is done.
  void wait(const Operation& operation);

 private:
  void poll();
  // True when the operation has ended.
  bool advance(Operation& operation);
  bool messages_done(Operation& operation);

  std::shared_ptr<Ledger> ledger_;
  std::shared_ptr<Memory> memory_;
  std::int64_t message_bytes_;
  int world_rank_;
  std::map<int, Staging> staging_;  // by device
  std::list<OperationPtr> pending_;
  std::vector<MPI_Status> statuses_;  // scratch of messages_done
};

}  // namespace fivefold
