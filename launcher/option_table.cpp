// Every key with its help, one line each. The names are what users rely on: see docs/configuration.md.
#include "launcher/option_table.h"

#include "launcher/values.h"

namespace fivefold {
namespace {

// Adds the options of one section, whose values live in the struct `Part` of a Config.
template <class Part>
class Builder {
 public:
  Builder(std::string name, std::string help, Part Config::*part) : part_(part) {
    section_.name = std::move(name);
    section_.help = std::move(help);
  }
  template <class T>
  Builder& add(const std::string& key, T Part::*member, const Codec<T>& codec, const std::string& help) {
    Option option{section_.name, key, help, codec.placeholder, codec.expects, codec.allowed, {}, {}};
    option.set = [part = part_, member, parse = codec.parse](Config& config, std::string_view text) {
      auto value = parse(text);
      if (value) (config.*part).*member = std::move(*value);
      return value.has_value();
    };
    option.get = [part = part_, member, format = codec.format](const Config& config) {
      return format((config.*part).*member);
    };
    section_.options.push_back(std::move(option));
    return *this;
  }
  // A key without a place in the Config: resolve() acts on it.
  Builder& add_source(const std::string& key, const std::string& placeholder, const std::string& help) {
    section_.options.push_back({section_.name,
                                key,
                                help,
                                placeholder,
                                "a text",
                                {},
                                [](Config&, std::string_view) { return true; },
                                [](const Config&) { return std::string(); }});
    return *this;
  }
  Section take() { return std::move(section_); }

 private:
  Part Config::*part_;
  Section section_;
};

Section run_section() {
  using P = RunConfig;
  return Builder("run", "the run as a whole", &Config::run)
      .add("dir", &P::dir, path(), "folder that holds the runs")
      .add("name", &P::name, text(), "the run lives in dir/name")
      .add("seed", &P::seed, seed_number(), "initial weights, sample order")
      .add("steps", &P::steps, integer(1), "optimizer steps to attempt; a skipped update counts")
      .add("resume", &P::resume, text(), "auto (newest checkpoint of the run), never, or a checkpoint")
      .add("init", &P::init, path(), "checkpoint or Hugging Face folder to start from: weights only, step 0")
      .add("allow_change", &P::allow_change, names(), "keys that may differ from the checkpoint's on resume")
      .add("stop_before", &P::stop_before_s, duration_s(),
           "save and stop this long before the time limit; 0s: no limit")
      .take();
}

Builder<ModelConfig>& add_experts(Builder<ModelConfig>& section) {
  using P = ModelConfig;
  return section.add("experts", &P::experts, integer(0), "routed experts a block; 0: a dense model")
      .add("experts_per_token", &P::experts_per_token, integer(0), "experts that each token meets")
      .add("expert_ffn", &P::expert_ffn, integer(0), "width inside one expert; 0: ffn")
      .add("shared_experts", &P::shared_experts, integer(0), "experts that every token meets, as one mlp")
      .add("shared_gate", &P::shared_gate, boolean(), "scale the shared mlp by a learned sigmoid")
      .add("first_dense", &P::first_dense, integer(0), "first blocks that stay dense")
      .add("moe_every", &P::moe_every, integer(1), "of the others, every n-th block has experts")
      .add("router", &P::router, choice<Router>(), "scores of the experts")
      .add("normalize_topk", &P::normalize_topk, boolean(), "make the chosen experts' weights sum to 1")
      .add("routed_scale", &P::routed_scale, positive_number(), "factor on the routed experts' output")
      .add("expert_groups", &P::expert_groups, integer(1), "groups the experts are split into")
      .add("groups_per_token", &P::groups_per_token, integer(1), "groups a token may choose from")
      .add("aux_loss", &P::aux_loss, number(0), "coefficient of the balance loss")
      .add("aux_scope", &P::aux_scope, choice<AuxScope>(), "what the balance loss averages over")
      .add("router_z_loss", &P::router_z_loss, number(0), "coefficient of the router's z-loss")
      .add("router_bias_rate", &P::router_bias_rate, number(0), "step of the aux-loss-free balancing bias")
      .add("capacity", &P::capacity, number(0), "rows an expert takes, as a factor of an even share; 0: all");
}

Section model_section() {
  using P = ModelConfig;
  Builder section("model", "the shape of the model", &Config::model);
  section.add_source("preset", "NAME", "start from a known shape: " + list_of(preset_names()))
      .add_source("from_hf", "DIR", "start from the shape in a Hugging Face folder's config.json")
      .add("family", &P::family, one_of(family_names()),
           "whose conventions and file format the model follows")
      .add("layers", &P::layers, integer(0), "transformer blocks")
      .add("hidden", &P::hidden, integer(0), "width of the residual stream")
      .add("heads", &P::heads, integer(0), "query heads")
      .add("kv_heads", &P::kv_heads, integer(0), "key and value heads; 0: heads")
      .add("head_dim", &P::head_dim, integer(0), "width of a head; 0: hidden / heads")
      .add("ffn", &P::ffn, integer(0), "width inside the mlp")
      .add("vocab", &P::vocab, integer(0), "rows of the embedding")
      .add("context", &P::context, integer(0), "longest sequence, tokens")
      .add("tie_embeddings", &P::tie_embeddings, boolean(), "the head is the embedding")
      .add("init_std", &P::init_std, number(0), "standard deviation of initial weights")
      .add("norm", &P::norm, choice<Norm>(), "normalisation")
      .add("norm_eps", &P::norm_eps, positive_number(), "added to the variance")
      .add("activation", &P::activation, choice<Activation>(), "of the mlp; gelu in its tanh form")
      .add("qkv_bias", &P::qkv_bias, boolean(), "bias on q, k and v")
      .add("out_bias", &P::out_bias, boolean(), "bias on the attention output")
      .add("mlp_bias", &P::mlp_bias, boolean(), "bias in the mlp")
      .add("position", &P::position, choice<Position>(), "how positions enter")
      .add("rope_theta", &P::rope_theta, positive_number(), "base of the rotary wavelengths")
      .add("rope_style", &P::rope_style, choice<RopeStyle>(), "which dims of a head turn together")
      .add("rope_scaling", &P::rope_scaling, rope_scaling(),
           "stretch of the rotary wavelengths beyond the trained context")
      .add("qk_norm", &P::qk_norm, choice<QkNorm>(),
           "norm of queries and keys, per head or over the full width")
      .add("window", &P::window, integer(0), "keys a query sees, itself included; 0: all before it")
      .add("q_rank", &P::q_rank, integer(0), "latent attention: rank of q; 0: full")
      .add("kv_rank", &P::kv_rank, integer(0), "latent attention: rank of k and v; 0: plain attention")
      .add("qk_nope_dim", &P::qk_nope_dim, integer(0), "latent attention: dims a head without positions")
      .add("qk_rope_dim", &P::qk_rope_dim, integer(0), "latent attention: rotary dims a head")
      .add("v_dim", &P::v_dim, integer(0), "latent attention: value dims a head");
  return add_experts(section).take();
}

Section data_section() {
  using P = DataConfig;
  return Builder("data", "what is trained on", &Config::data)
      .add("train", &P::train, text(), "token files: PATH, PATH, ... or PATH:WEIGHT, PATH:WEIGHT, ...")
      .add("valid", &P::valid, text(), "token files of the held-out split")
      .add("tokenizer", &P::tokenizer, path(), "tokenizer; empty: the one the token file names")
      .add("sequence", &P::sequence, integer(0), "tokens a sample; 0: model.context")
      .add("documents", &P::documents, choice<Documents>(), "mask: a token sees its own document only")
      .add("order", &P::order, choice<SampleOrder>(), "order of the samples in an epoch")
      .add("eval_every", &P::eval_every, integer(0), "steps between validations; 0: after the last only")
      .add("eval_batches", &P::eval_batches, integer(1), "global batches a validation")
      .take();
}

Section parallel_section() {
  using P = ParallelConfig;
  return Builder("parallel", "how the ranks share the work: tp x pp x cp x shard x replicate = ranks",
                 &Config::parallel)
      .add("tp", &P::tp, small_integer(1), "tensor parallel degree, with sequence parallel")
      .add("pp", &P::pp, small_integer(1), "pipeline stages")
      .add("chunks", &P::chunks, small_integer(1), "virtual stages a pipeline rank")
      .add("cp", &P::cp, small_integer(1), "context parallel degree")
      .add("ep", &P::ep, small_integer(1), "expert parallel degree; divides shard x cp x tp")
      .add("shard", &P::shard, automatic_or(1), "data ranks that share optimizer state")
      .add("replicate", &P::replicate, automatic_or(1), "copies of that group")
      .add("zero", &P::zero, small_integer(1, 3),
           "what is shared: 1 optimizer, 2 and gradients, 3 and weights")
      .add("reduce", &P::reduce, choice<ReduceWhen>(), "when gradients are summed over ranks")
      .add("reshard", &P::reshard, choice<Reshard>(), "when zero = 3 drops gathered weights")
      .add("schedule", &P::schedule, choice<ScheduleKind>(), "pipeline schedule")
      .add("stage_layers", &P::stage_layers, counts(), "blocks of each virtual stage; empty: split by cost")
      .add("cp_strategy", &P::cp_strategy, choice<CpStrategy>(), "how context parallel ranks exchange keys")
      .add("transport", &P::transport, choice<TransportName>(), "what carries the messages")
      .add("overlap", &P::overlap, boolean(), "communicate while computing")
      .add("moe_arena", &P::moe_arena_bytes, size_in_bytes(), "memory for routed rows; 0B: chosen by shape")
      .add("route_force", &P::route_force, choice<RouteForce>(), "replace the router's choice, for sizing")
      .take();
}

Section train_section() {
  using P = TrainConfig;
  return Builder("train", "one optimizer step", &Config::train)
      .add("global_batch", &P::global_batch, integer(1), "sequences a step")
      .add("micro_batch", &P::micro_batch, integer(1), "sequences a data rank takes at once")
      .add("precision", &P::precision, float_dtype(), "dtype of weights and activations in compute")
      .add("device", &P::device, choice<DeviceChoice>(), "where ranks compute")
      .add("threads", &P::threads, small_integer(1), "CPU threads a rank")
      .add("deterministic", &P::deterministic, boolean(),
           "same bits from the same layout; false: fastest products")
      .add("recompute", &P::recompute, choice<RecomputePolicy>(), "activations to compute again in backward")
      .add("loss_rows", &P::loss_rows, integer(0), "rows of logits alive at once; 0: chosen by size")
      .add("master", &P::master, choice<MasterStorage>(),
           "storage of master weights; auto: f64 in f64 runs, else f32; split: the same f32 in two halves, "
           "one of "
           "them the bf16 weights; bf16: those alone, small updates are lost")
      .add("moments", &P::moments, storage_dtype(),
           "storage of Adam's moments; auto: f64 in f64 runs, else f32")
      .add("gradients", &P::gradients, storage_dtype(), "storage of summed gradients; auto as above")
      .add("memory_limit", &P::memory_limit_bytes, size_in_bytes(),
           "most memory of a rank's tensors; 0: what the device has")
      .add("max_skips", &P::max_skips, integer(0), "updates skipped in a row before the run fails")
      .take();
}

Section optimizer_section() {
  using P = OptimizerConfig;
  return Builder("optimizer", "how weights change", &Config::optimizer)
      .add("name", &P::name, choice<OptimizerName>(), "optimizer")
      .add("lr", &P::lr, positive_number(), "highest learning rate")
      .add("min_lr", &P::min_lr, number(0), "learning rate after the decay")
      .add("warmup_steps", &P::warmup_steps, integer(0), "steps of linear warmup")
      .add("decay", &P::decay, choice<LrDecay>(), "course of the learning rate after warmup")
      .add("decay_steps", &P::decay_steps, integer(0),
           "steps from the end of warmup to min_lr; 0: up to run.steps. wsd: steps of the final fall; 0: a "
           "tenth of run.steps")
      .add("beta1", &P::beta1, number(0), "decay of the first moment")
      .add("beta2", &P::beta2, number(0), "decay of the second moment")
      .add("eps", &P::eps, positive_number(), "added to the root of the second moment")
      .add("weight_decay", &P::weight_decay, number(0), "decoupled decay of parameters with two or more dims")
      .add("clip", &P::clip, number(0), "largest global gradient norm; 0: no clipping")
      .take();
}

Section checkpoint_section() {
  using P = CheckpointConfig;
  return Builder("checkpoint", "saving", &Config::checkpoint)
      .add("every", &P::every, integer(0), "steps between checkpoints; 0: at the end only")
      .add("keep", &P::keep, integer(1), "newest checkpoints that stay")
      .add("async", &P::async, choice<AsyncSave>(), "write while training goes on")
      .add("staging", &P::staging_bytes, size_in_bytes(), "host memory a rank for asynchronous writes")
      .add("compress", &P::compress, boolean(), "zstd")
      .add("allow_missing", &P::allow_missing, names(), "tensors that a load may lack")
      .take();
}

Section launch_section() {
  using P = LaunchConfig;
  return Builder("launch", "watching and restarting", &Config::launch)
      .add("deadline_init", &P::deadline_init_s, duration_s(), "longest start")
      .add("deadline_step", &P::deadline_step_s, duration_s(), "longest step")
      .add("deadline_save", &P::deadline_save_s, duration_s(), "longest save")
      .add("restarts", &P::restarts, integer(0), "restarts before giving up")
      .add("hash_every", &P::hash_every, integer(0),
           "steps between comparisons of replicated weights; 0: never")
      .take();
}

Section log_section() {
  using P = LogConfig;
  return Builder("log", "reporting", &Config::log)
      .add("every", &P::every, integer(1), "steps between lines")
      .add("level", &P::level, choice<LogLevel>(), "least severe line shown")
      .add("tensorboard", &P::tensorboard, boolean(), "write TensorBoard event files")
      .add("trace", &P::trace, boolean(), "write a Chrome trace")
      .take();
}

}  // namespace

const std::vector<Section>& option_table() {
  static const std::vector<Section> table{run_section(),        model_section(),  data_section(),
                                          parallel_section(),   train_section(),  optimizer_section(),
                                          checkpoint_section(), launch_section(), log_section()};
  return table;
}

const Option* find_option(std::string_view name) {
  for (const auto& section : option_table())
    for (const auto& option : section.options)
      if (option.name() == name) return &option;
  return nullptr;
}

std::vector<std::string> option_names() {
  std::vector<std::string> names;
  for (const auto& section : option_table())
    for (const auto& option : section.options) names.push_back(option.name());
  return names;
}

bool is_shape_source(std::string_view name) { return name == "model.preset" || name == "model.from_hf"; }

}  // namespace fivefold
