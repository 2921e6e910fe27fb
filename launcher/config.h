// Everything a run can be told, typed: one struct a section of the configuration file. launcher/options.h
// fills it from defaults, presets, files and the command line; check() holds the rules that span sections.
#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/enum_names.h"
#include "core/log.h"
#include "data/choices.h"
#include "model/config.h"
#include "model/lr_schedule.h"
#include "parallel/context/strategy.h"
#include "parallel/fsdp/storage.h"
#include "parallel/mesh/mesh.h"
#include "parallel/pipeline/generators.h"

namespace fivefold {

enum class ReduceWhen : std::uint8_t { step, micro_batch };
enum class Reshard : std::uint8_t { automatic, always, step };
enum class TransportName : std::uint8_t { automatic, thread, mpi, nccl };
enum class RouteForce : std::uint8_t { none, balanced, skewed };
enum class DeviceChoice : std::uint8_t { automatic, cpu, cuda };
enum class OptimizerName : std::uint8_t { adamw };
enum class AsyncSave : std::uint8_t { off, full, ring };
enum class MasterStorage : std::uint8_t { automatic, f32, split, bf16, f64 };

template <>
inline constexpr auto kEnumNames<ReduceWhen> = std::to_array<std::string_view>({"step", "micro_batch"});
template <>
inline constexpr auto kEnumNames<Reshard> = std::to_array<std::string_view>({"auto", "always", "step"});
template <>
inline constexpr auto kEnumNames<TransportName> = std::to_array<std::string_view>({"auto", "thread", "mpi",
                                                                                   "nccl"});
template <>
inline constexpr auto kEnumNames<RouteForce> = std::to_array<std::string_view>({"none", "balanced",
                                                                                "skewed"});
template <>
inline constexpr auto kEnumNames<DeviceChoice> = std::to_array<std::string_view>({"auto", "cpu", "cuda"});
template <>
inline constexpr auto kEnumNames<OptimizerName> = std::to_array<std::string_view>({"adamw"});
template <>
inline constexpr auto kEnumNames<MasterStorage> = std::to_array<std::string_view>({"auto", "f32", "split",
                                                                                   "bf16", "f64"});
template <>
inline constexpr auto kEnumNames<AsyncSave> = std::to_array<std::string_view>({"off", "full", "ring"});

struct RunConfig {
  std::string dir = "runs";  // the run lives in dir/name
  std::string name = "run";
  std::uint64_t seed = 1;
  std::int64_t steps = 1000;              // attempts: a skipped update counts
  std::string resume = "auto";            // auto, never, or a checkpoint
  std::string init;                       // a checkpoint or a Hugging Face folder: weights only, step 0
  std::vector<std::string> allow_change;  // keys that may differ from the checkpoint's on resume
  double stop_before_s = 0;  // save and leave this long before the scheduler's time limit; 0: do not watch it
  bool operator==(const RunConfig&) const = default;
};

struct DataConfig {
  std::string train,
      valid;              // lists of token files with optional weights: see open_data_set in data/data_set.h
  std::string tokenizer;  // empty: the one named in the data file
  std::int64_t sequence = 0;  // tokens a sample; 0: model.context
  Documents documents = Documents::mask;
  SampleOrder order = SampleOrder::shuffle;
  std::int64_t eval_every = 0;  // steps; 0: only after the last
  std::int64_t eval_batches = 8;
  bool operator==(const DataConfig&) const = default;
};

struct ParallelConfig {
  int tp = 1, pp = 1;
  int chunks = 1;  // virtual stages a pp rank
  int cp = 1, ep = 1;
  int shard = 0, replicate = 0;  // 0: auto
  int zero = 1;
  ReduceWhen reduce = ReduceWhen::step;
  Reshard reshard = Reshard::automatic;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  std::vector<std::int64_t> stage_layers;  // blocks a virtual stage; empty: split by cost
  CpStrategy cp_strategy = CpStrategy::ring;
  TransportName transport = TransportName::automatic;
  bool overlap = true;
  std::int64_t moe_arena_bytes = 0;  // 0: as large as a balanced batch needs twice over
  RouteForce route_force = RouteForce::none;
  bool operator==(const ParallelConfig&) const = default;
};

struct TrainConfig {
  std::int64_t global_batch = 8;  // sequences a step
  std::int64_t micro_batch = 1;   // sequences a data rank takes at once
  DType precision = DType::f32;
  DeviceChoice device = DeviceChoice::automatic;
  int threads = 1;  // CPU threads a rank
  bool deterministic = true;
  RecomputePolicy recompute = RecomputePolicy::none;
  std::int64_t loss_rows = 0;  // rows of logits alive at once; 0: chosen by size
  MasterStorage master = MasterStorage::automatic;
  std::optional<DType> moments, gradients;  // storage; empty: f64 where precision is f64, else f32
  std::int64_t memory_limit_bytes = 0;      // of a rank's tensors; 0: what the device has
  std::int64_t max_skips = 100;             // skipped updates in a row before the run fails
  bool operator==(const TrainConfig&) const = default;
};

struct OptimizerConfig {
  OptimizerName name = OptimizerName::adamw;
  double lr = 3e-4;
  double min_lr = 0;
  std::int64_t warmup_steps = 0;
  LrDecay decay = LrDecay::cosine;
  std::int64_t decay_steps =
      0;  // updates from warmup to min_lr, for wsd of the final fall; 0: see lr_schedule()
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double weight_decay = 0.1;
  double clip = 1.0;  // global norm; 0: off
  bool operator==(const OptimizerConfig&) const = default;
};

struct CheckpointConfig {
  std::int64_t every = 0;  // steps; 0: only at the end
  std::int64_t keep = 3;
  AsyncSave async = AsyncSave::off;
  std::int64_t staging_bytes = std::int64_t{1} << 30;
  bool compress = true;
  std::vector<std::string> allow_missing;  // tensors a load may lack
  bool operator==(const CheckpointConfig&) const = default;
};

struct LaunchConfig {
  double deadline_init_s = 300, deadline_step_s = 600, deadline_save_s = 1800;
  std::int64_t restarts = 3;
  std::int64_t hash_every = 0;  // steps between comparisons of replicas; 0: never
  bool operator==(const LaunchConfig&) const = default;
};

struct LogConfig {
  std::int64_t every = 1;  // steps a line
  LogLevel level = LogLevel::info;
  bool tensorboard = false;
  bool trace = false;
  bool operator==(const LogConfig&) const = default;
};

struct Config {
  RunConfig run;
  ModelConfig model;  // completed
  DataConfig data;
  ParallelConfig parallel;
  TrainConfig train;
  OptimizerConfig optimizer;
  CheckpointConfig checkpoint;
  LaunchConfig launch;
  LogConfig log;
  bool operator==(const Config&) const = default;
};

// The degrees with auto filled in so that they multiply to `world`: shard takes what is left, replicate is 1
// unless given. Throws UserError with the numbers where that is impossible.
// `fits`: what else must hold of a mesh that the refusal names instead.
MeshShape mesh_shape(const ParallelConfig& parallel, int world, const MeshRule& fits = {});

// How the state of training is stored, in the words of the layers below.
StateStorage state_storage(const TrainConfig& train);

// Tokens a sample: data.sequence, or the model's context where it is 0.
std::int64_t sequence_length(const Config& config);
// The course of the learning rate, with decay_steps filled in.
LrSchedule lr_schedule(const Config& config);

// Throws UserError with the first broken rule: the model's own, degrees against model and world, batch and
// sequence, learning rate. `world` is the number of ranks.
void check(const Config& config, int world);
// What only a training run needs: files to train on, and one place to start from.
void check_training(const Config& config);
// Throws UserError unless every id below `data_vocab`, the vocabulary of data file `path`, has a row in the
// embedding.
void check_vocab(const ModelConfig& model, std::int64_t data_vocab, const std::string& path);

}  // namespace fivefold
