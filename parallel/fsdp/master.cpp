// State of a parameter as tensors in host memory, in whatever form it is stored.
#include "core/copy.h"
#include "parallel/fsdp/unit.h"

namespace fivefold {

namespace {

constexpr std::int64_t kPiece = 1 << 22;  // elements that are on the device at a time

Tensor flat(const Tensor& t) { return t ? t.view({t.count()}) : Tensor{}; }

Tensor piece_of(const Tensor& t, std::int64_t first, std::int64_t count) {
  return t ? t.slice(first, count) : Tensor{};
}

// Calls f(elements of `host`, the first of them, room for as many on the device) for all pieces.
template <class F>
void for_each_piece(const Run& run, const Tensor& host, F&& f) {
  for (std::int64_t first = 0; first < host.count(); first += kPiece) {
    const auto count = std::min(kPiece, host.count() - first);
    f(host.slice(first, count), first, run.empty({count}, host.dtype(), Tag::staging));
  }
  run.stream.synchronize();
}

StoredMaster piece_of(const StoredMaster& weight, std::int64_t first, std::int64_t count) {
  return {.master = piece_of(weight.master, first, count),
          .copy = piece_of(weight.copy, first, count),
          .remainder = piece_of(weight.remainder, first, count)};
}

}  // namespace

StoredMaster ShardedParam::stored() const {
  if (remainder) return {.master = {}, .copy = flat(shard), .remainder = flat(remainder)};
  if (!master) return {.master = flat(shard), .copy = {}, .remainder = {}};
  const bool apart = master.dtype() != shard.dtype();
  return {.master = flat(master), .copy = apart ? flat(shard) : Tensor{}, .remainder = {}};
}

Tensor ShardedParam::in_full(const Run& run, Tensor ShardedParam::*member) const {
  const Tensor& kept = this->*member;
  if (kept && kept.dtype() == run.accum()) return kept;
  const auto value = run.empty(param->storage_box.shape(), run.accum(), Tag::staging);
  if (kept)
    run(Convert{.x = kept, .y = value});
  else
    run(ReadMaster{.weight = stored(), .value = flat(value)});
  return value;
}

void read_as(const Run& run, const Tensor& stored, const Tensor& host) {
  for_each_piece(run, host, [&](const Tensor& out, std::int64_t first, const Tensor& value) {
    run(Convert{.x = stored.slice(first, value.count()), .y = value});
    copy_bytes(out, value, run.stream);
  });
}

void write_as(const Run& run, const Tensor& host, const Tensor& stored) {
  for_each_piece(run, host, [&](const Tensor& in, std::int64_t first, const Tensor& value) {
    copy_bytes(value, in, run.stream);
    run(Convert{.x = value, .y = stored.slice(first, value.count())});
  });
}

void ShardedParam::read_master(const Run& run, const Tensor& host) const {
  for_each_piece(run, host, [&](const Tensor& out, std::int64_t first, const Tensor& value) {
    run(ReadMaster{.weight = piece_of(stored(), first, value.count()), .value = value});
    copy_bytes(out, value, run.stream);
  });
}

void ShardedParam::write_master(const Run& run, const Tensor& host) const {
  for_each_piece(run, host, [&](const Tensor& in, std::int64_t first, const Tensor& value) {
    copy_bytes(value, in, run.stream);
    run(WriteMaster{.value = value, .weight = piece_of(stored(), first, value.count())});
  });
}

}  // namespace fivefold
