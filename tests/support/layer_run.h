// What tests of layers stand on: a Run on each of some thread ranks, parameters without a model around them,
// rows of packed documents, and gradients by central differences.
#pragma once
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "model/rows.h"
#include "parallel/fsdp/unit.h"
#include "parallel/run.h"

namespace fivefold::test {

// Runs `body` on every rank of a mesh of thread ranks. Buffers are poisoned, so an output that nobody wrote
// shows. (In the body of a TEST the name Run is gtest's own: write `const auto& run`.)
void on_ranks(const MeshShape& mesh, DType dtype, const std::function<void(const Run&)>& body);
// One rank, f64.
void on_one_rank(const std::function<void(const Run&)>& body);

// Standard normal numbers times `size`; `stream` names the sequence.
Tensor normal(const Run& run, Shape shape, std::uint64_t stream, double size = 1);
std::vector<double> numbers(const Tensor& t, const Run& run);
// Sum of x[i] * y[i] in f64.
double dot(const Tensor& x, const Tensor& y, const Run& run);
// The elements of `x` have the bits of `y`'s.
bool same_bits(const Tensor& x, const Tensor& y);

// What is asked of one micro-batch's rows. Each sequence is a list of document lengths; `window` 0: all
// before.
struct RowSpec {
  std::vector<std::vector<std::int64_t>> sequences;
  std::int64_t vocab = 1, window = 0, padding = 0;
  std::uint64_t seed = 1;
};
// Random tokens; a document's last row has no target, positions restart with each document, padding rows see
// nothing.
TokenRows token_rows(const Run& run, const RowSpec& spec);

// Parameters that a test names itself, in units as a stage would hold them.
class TestParams {
 public:
  explicit TestParams(const Run& run) : run_(run) {}
  struct Named {
    std::string name;
    Shape shape;
    double mean = 0, spread = 1;
    PartitionSpec compute{};
  };
  // Parameters that lie adjacent, with random values.
  std::vector<Param*> add(const std::vector<Named>& group);
  Param* add(const std::string& name, Shape shape, double mean = 0, double spread = 1);
  // Every gradient starts at `value`: layers add to what is there.
  void fill_gradients(double value);
  // Sums the gradients over the mesh, as at the end of a step.
  void reduce_gradients();
  std::vector<ShardedParam*> sharded();
  std::deque<Param>& all() { return params_; }

 private:
  void write_values(ShardedParam& sharded, const Named& named);
  const Run& run_;
  std::deque<Param> params_;
  std::deque<FsdpUnit> units_;
};

// Fails unless `gradient` is that of `objective` in the elements of `value` (f64; moved in place and put
// back): central differences, 1e-6 of the tensor's largest element (of 1e-3 or 1e-4 of the objective where
// all are smaller). At most 60 elements, evenly spread.
void expect_gradient(const std::string& what, const Tensor& value, const Tensor& gradient,
                     const std::function<double()>& objective, const Run& run);

// A layer of rows, x [T, D] -> y, as functions: the test writes them in terms of the layer under test.
struct RowLayer {
  std::function<Tensor(const Tensor& x)> forward;
  // Forward and backward for the cotangent dy: the gradient of x is returned, those of parameters are added.
  std::function<Tensor(const Tensor& x, const Tensor& dy)> gradient;
};
// Gradients of x and of every parameter by central differences of sum(forward(x) * random cotangent).
void check_row_layer(const Run& run, const Tensor& x, TestParams& params, const RowLayer& layer);

}  // namespace fivefold::test
