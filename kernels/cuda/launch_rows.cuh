// Many tensors in one launch: a table of rows goes with the kernel's parameters, each row's elements are cut
// into chunks of a fixed size, and a block takes one chunk. Nothing is copied to the device beforehand.
#pragma once
#include <vector>

#include "core/types.h"

namespace fivefold::cuda {

// What a kernel may be given: 32,764 bytes since compute capability 7.0, less room for other parameters.
constexpr std::size_t kTableBytes = 32'000;

// Row has `std::int64_t count`, its elements, and `std::int32_t first`, its first chunk: filled in here.
template <class Row>
struct RowTable {
  static constexpr int kMost = static_cast<int>((kTableBytes - 16) / sizeof(Row));
  std::int32_t rows = 0, chunks = 0;
  Row row[kMost];

  // The row of a chunk. Chunks of a row follow each other, so later rows start higher.
  __device__ const Row& of(std::int32_t chunk) const {
    int low = 0, high = rows - 1;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (row[middle].first <= chunk)
        low = middle;
      else
        high = middle - 1;
    }
    return row[low];
  }
};

// Calls launch(table) for all rows that have elements, as few times as tables hold them.
template <std::int64_t kChunk, class Row, class Launch>
void for_row_tables(const std::vector<Row>& rows, Launch launch) {
  RowTable<Row> table;
  const auto flush = [&] {
    if (table.rows > 0) launch(table);
    table.rows = table.chunks = 0;
  };
  for (const Row& row : rows) {
    if (row.count == 0) continue;
    if (table.rows == RowTable<Row>::kMost) flush();
    Row& placed = table.row[table.rows++] = row;
    placed.first = table.chunks;
    table.chunks += static_cast<std::int32_t>(ceil_div(row.count, kChunk));
  }
  flush();
}

}  // namespace fivefold::cuda
