// f32 and bf16 products by oneDNN. Compiled bf16 products are kept by shape.
#include <omp.h>

#include <dnnl.hpp>
#include <map>
#include <mutex>
#include <tuple>

#include "kernels/cpu/products_library.h"

namespace fivefold::cpu {

namespace {

constexpr std::size_t kKeptProducts = 256;

// oneDNN would start as many threads as OpenMP allows; the calling thread is to do the work alone.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

// [rows, columns] of memory with a row stride, seen transposed or not.
dnnl::memory::desc described(std::int64_t rows, std::int64_t columns, std::int64_t stride, bool transpose,
                             dnnl::memory::data_type type) {
  if (transpose) return {{rows, columns}, type, dnnl::memory::dims{1, stride}};
  return {{rows, columns}, type, dnnl::memory::dims{stride, 1}};
}

struct Key {
  ProductShape shape;
  DType c_dtype;
  bool bias;
  auto operator<=>(const Key&) const = default;
};

struct Compiled {
  dnnl::matmul::primitive_desc description;
  dnnl::matmul product;
};

// The description of a product in the interface of oneDNN 2 (which has Matmul::desc) or 3. An empty bias is
// none.
template <class Matmul, class Desc>
typename Matmul::primitive_desc describe(const dnnl::engine& engine, const Desc& a, const Desc& b,
                                         const Desc& bias, const Desc& c,
                                         const dnnl::primitive_attr& attributes) {
  if constexpr (requires { typename Matmul::desc; })
    return {typename Matmul::desc(a, b, bias, c), attributes, engine};
  else
    return {engine, a, b, bias, c, attributes};
}

Compiled compile(const Key& key, const dnnl::engine& engine) {
  const auto& s = key.shape;
  using Type = dnnl::memory::data_type;
  const auto a = described(s.m, s.k, s.lda, s.transpose_a, Type::bf16);
  const auto b = described(s.k, s.n, s.ldb, s.transpose_b, Type::bf16);
  const auto c = described(s.m, s.n, s.ldc, false, key.c_dtype == DType::bf16 ? Type::bf16 : Type::f32);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(
      dnnl::scratchpad_mode::user);  // a product may run on several threads at once
  if (s.beta != 0.0) {
    dnnl::post_ops sum;
    sum.append_sum(static_cast<float>(s.beta));
    attributes.set_post_ops(sum);
  }
  const auto bias = key.bias ? described(1, s.n, s.n, false, Type::f32) : dnnl::memory::desc();
  const auto description = describe<dnnl::matmul>(engine, a, b, bias, c, attributes);
  return {description, dnnl::matmul(description)};
}

}  // namespace

void multiply_f32(const ProductShape& s, const float* a, const float* b, float* c) {
  const OneThread alone;
  const auto status = dnnl_sgemm(s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', s.m, s.n, s.k, 1.0f, a,
                                 s.lda, b, s.ldb, static_cast<float>(s.beta), c, s.ldc);
  FF_CHECK(status == dnnl_success, "oneDNN refused a product of ", s.m, " x ", s.n, " x ", s.k,
           " with status ", status);
}

struct Bf16Products::State {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  std::mutex mutex;
  std::map<Key, Compiled> compiled;
  bool missing = false;  // this processor has none

  // Null where there is none. A copy, since another thread may empty the map.
  std::unique_ptr<Compiled> get(const Key& key) {
    const std::lock_guard lock(mutex);
    if (missing) return nullptr;
    if (const auto found = compiled.find(key); found != compiled.end())
      return std::make_unique<Compiled>(found->second);
    if (compiled.size() >= kKeptProducts) compiled.clear();
    try {
      return std::make_unique<Compiled>(compiled.emplace(key, compile(key, engine)).first->second);
    } catch (const dnnl::error& error) {
      if (error.status != dnnl_unimplemented) throw Error(str("oneDNN: ", error.what()));
      missing = true;
      return nullptr;
    }
  }
};

Bf16Products::Bf16Products() : state_(std::make_unique<State>()) {}
Bf16Products::~Bf16Products() = default;

bool Bf16Products::multiply(const ProductShape& shape, const bf16* a, const bf16* b, void* c, DType c_dtype,
                            const float* bias) {
  const OneThread alone;
  const auto compiled = state_->get({shape, c_dtype, bias != nullptr});
  if (!compiled) return false;
  const auto& d = compiled->description;
  const auto at = [&](const dnnl::memory::desc& desc, const void* p) {
    return dnnl::memory(desc, state_->engine, const_cast<void*>(p));
  };
  std::unordered_map<int, dnnl::memory> operands{
      {DNNL_ARG_SRC, at(d.src_desc(), a)},
      {DNNL_ARG_WEIGHTS, at(d.weights_desc(), b)},
      {DNNL_ARG_DST, at(d.dst_desc(), c)},
      {DNNL_ARG_SCRATCHPAD, {d.scratchpad_desc(), state_->engine}}};
  if (bias) operands.emplace(DNNL_ARG_BIAS, at(d.bias_desc(), bias));
  dnnl::stream stream(state_->engine);
  compiled->product.execute(stream, operands);
  stream.wait();
  return true;
}

}  // namespace fivefold::cpu
