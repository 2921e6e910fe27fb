// A small model's state under any layout, with values that tell which element they are.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "checkpoint/load.h"
#include "checkpoint/save.h"
#include "checkpoint/steps.h"
#include "core/philox.h"
#include "parallel/comm/thread_world.h"
#include "tests/support/faulty_file_system.h"

namespace fivefold::test {

// A tensor of the model: where it is cut, and which stages hold it.
struct StateTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape global;
  PartitionSpec spec;
  std::vector<int> stages = {0};  // pp coordinates that hold it
};

inline Cut cut(std::vector<Axis> axes, std::int64_t unit = 1, int parts = 0) {
  return {std::move(axes), parts, unit};
}

// Shapes with remainders, both views, every kind of cut in the parameter table, two uses of a tied table, all
// dtypes.
inline std::vector<StateTensor> small_model(const MeshShape& mesh) {
  const auto storage = cut({Axis::shard, Axis::cp}), tp = cut({Axis::tp});
  const PartitionSpec none, rows = none.with(0, tp).with(0, storage),
                            columns = none.with(1, tp).with(0, storage);
  const auto kv =
      none.with(0, cut({Axis::tp}, 3, std::min(mesh.tp, 2))).with(0, storage);      // 2 heads of 3 rows
  const auto experts = none.with(0, cut({Axis::ep}, 6)).with(0, cut({Axis::edp}));  // 4 experts of 6 rows
  const int last = mesh.pp - 1;
  std::vector<StateTensor> tensors{{"embedding", DType::f32, {11, 5}, rows, {0, last}},
                                   {"final_norm", DType::f32, {5}, none.with(0, storage), {last}},
                                   {"scale", DType::f64, {}, none, {0}},
                                   {"balance", DType::i32, {7}, none, {last}}};
  for (int layer = 0; layer < 5; ++layer) {
    const std::string prefix = str("blocks.", layer, ".");
    const std::vector<int> stage{layer * mesh.pp / 5};
    tensors.push_back({prefix + "q", DType::bf16, {12, 5}, rows, stage});
    tensors.push_back({prefix + "k", DType::bf16, {6, 5}, kv, stage});
    tensors.push_back({prefix + "out", DType::bf16, {5, 12}, columns, stage});
    tensors.push_back({prefix + "experts", DType::f32, {24, 5}, experts, stage});
    tensors.push_back({prefix + "mask", DType::u8, {3, 2, 4}, none.with(0, storage), stage});
  }
  return tensors;
}

// Bits of element `i`: anything at all, NaNs, infinities and denormals included.
inline void fill_bits(const std::string& name, std::int64_t i, std::byte* out, std::int64_t bytes) {
  const auto block = philox(hash_name(name), static_cast<std::uint64_t>(i), 0);
  std::memcpy(out, block.data(), static_cast<std::size_t>(bytes));
}

// Row-major index in the whole tensor of element `i` of a box.
inline std::int64_t global_index(const Shape& global, const Box& box, std::int64_t i) {
  std::int64_t index = 0;
  const Shape part = box.shape();
  for (int d = 0; d < global.rank(); ++d)
    index += (box.begin[d] + i / part.tail_count(d + 1) % part[d]) * global.tail_count(d + 1);
  return index;
}

// Calls f(global index, bytes of the element) for every element of a rank's part.
template <class F>
void for_each_element(const LocalTensor& tensor, F&& f) {
  const auto width = size_of(tensor.data.dtype());
  for (std::int64_t i = 0; i < tensor.box.count(); ++i)
    f(global_index(tensor.global, tensor.box, i), tensor.data.raw() + i * width);
}

inline Tensor host_tensor(const Shape& shape, DType dtype) {
  static const auto memory = make_cpu_memory({.poison = true});
  CpuStream stream;
  return empty(*memory, shape, dtype, Tag::workspace, stream);
}

// What mesh position `position` holds; contents undefined.
inline std::vector<LocalTensor> parts_at(const MeshShape& shape, int position) {
  const MeshLayout mesh(shape);
  std::vector<LocalTensor> parts;
  for (const auto& tensor : small_model(shape)) {
    const int stage = mesh.coordinate(position, Axis::pp);
    if (std::find(tensor.stages.begin(), tensor.stages.end(), stage) == tensor.stages.end()) continue;
    const auto data = host_tensor(box_of(tensor.global, tensor.spec, mesh, position).shape(), tensor.dtype);
    parts.push_back(local_tensor("model/" + tensor.name, tensor.global, tensor.spec, mesh, position,
                                 tensor.stages.front(), data));
  }
  return parts;
}

// Values depend on `salt` (which save), name and element only.
inline void fill(std::vector<LocalTensor>& parts, const std::string& salt) {
  for (auto& part : parts)
    for_each_element(part, [&](std::int64_t i, std::byte* out) {
      fill_bits(salt + part.name, i, out, size_of(part.data.dtype()));
    });
}

// Elements whose bits are not those of `salt`.
inline std::int64_t wrong_elements(const std::vector<LocalTensor>& parts, const std::string& salt) {
  std::int64_t wrong = 0;
  for (const auto& part : parts)
    for_each_element(part, [&](std::int64_t i, const std::byte* found) {
      std::byte expected[16];
      const auto width = size_of(part.data.dtype());
      fill_bits(salt + part.name, i, expected, width);
      wrong += std::memcmp(expected, found, static_cast<std::size_t>(width)) != 0;
    });
  return wrong;
}

inline RunState state_at(std::int64_t step) {
  return {.step = step,
          .samples = step * 8 + 3,
          .seed = 1234,
          .config = "[run]\nname = \"t\xc3\xa9st\"\n",
          .data_hash = "d",
          .tokenizer_hash = "t",
          .extra = {{"skipped", "2"}}};
}

// Saves under `shape` with one thread a rank. What a rank throws comes out.
inline SavedCheckpoint save_as(FileSystem& fs, const Path& root, std::int64_t step, const MeshShape& shape,
                               const std::string& salt, const SaveOptions& options = {}) {
  SavedCheckpoint saved;
  run_ranks(shape.world(), [&](Transport& transport) {
    auto parts = parts_at(shape, transport.world().rank());
    fill(parts, salt);
    auto mine = save(fs, root, state_at(step), parts, transport.world(), options);
    if (transport.world().rank() == 0) saved = mine;
  });
  return saved;
}

// Loads `dir` under `shape` and counts the elements that are not those of `salt`, over all ranks.
inline std::int64_t wrong_after_load(FileSystem& fs, const Path& dir, const MeshShape& shape,
                                     const std::string& salt) {
  std::atomic<std::int64_t> wrong = 0;
  run_ranks(shape.world(), [&](Transport& transport) {
    auto parts = parts_at(shape, transport.world().rank());
    load(fs, dir, parts, transport.world());
    wrong += wrong_elements(parts, salt);
  });
  return wrong;
}

// The message of the UserError, Error or anything else that `work` throws; empty if it returns.
inline std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& e) {
    return e.what();
  }
  return {};
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace fivefold::test
