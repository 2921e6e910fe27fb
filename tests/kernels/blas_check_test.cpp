// The start-up check of matrix products passes here and sees a product that is wrong.
#include "kernels/blas_check.h"

#include <gtest/gtest.h>

#include "core/stream.h"

namespace fivefold {
namespace {

// Products with one wrong element wherever the inner size is above 100.
class WrongBackend final : public Implements<WrongBackend, Backend, AllOps> {
 public:
  DeviceKind device() const override { return DeviceKind::cpu; }
  template <class Op>
  void execute(const Op& op, Stream& stream) {
    inner_->run(op, stream);
    if constexpr (std::is_same_v<Op, Gemm>)
      if (op.k() > 100 && op.a.dtype() == DType::f32) op.c.template data<float>()[5] += 1;
  }

 private:
  std::unique_ptr<Backend> inner_ = make_cpu_backend({});
};

TEST(BlasCheck, AcceptsThisMachine) {
  CpuStream stream;
  const auto backend = make_cpu_backend({.threads = 2});
  EXPECT_NO_THROW(check_blas(*backend, *make_cpu_memory(), stream));
}

TEST(BlasCheck, NamesTheWrongProduct) {
  CpuStream stream;
  WrongBackend wrong;
  try {
    check_blas(wrong, *make_cpu_memory(), stream);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("f32 [67, 130] x [130, 41]"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("at (0, 5)"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace fivefold
