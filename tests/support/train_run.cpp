// Folders, processes and what runs leave.
#include "tests/support/train_run.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <sstream>
#include <thread>

#include "checkpoint/steps.h"
#include "core/json.h"
#include "core/philox.h"
#include "data/token_writer.h"

namespace fivefold::test {

namespace {

double number(const Json& json, const char* key) {
  return json.contains(key) && json.at(key).is_number() ? json.at(key).get<double>() : NAN;
}

MetricsLine metrics_line(const std::string& text) {
  const auto json = Json::parse(text);
  MetricsLine line;
  for (const auto& [key, value] : json.items()) line.keys.push_back(key);
  line.valid = json.contains("split");
  line.step = json.at("step"), line.samples = json.at("samples"), line.valid_tokens = json.at("valid_tokens");
  line.skipped = json.value("skipped", std::int64_t{0});
  line.loss = number(json, "loss"), line.grad_norm = number(json, "grad_norm"), line.lr = number(json, "lr");
  return line;
}

std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (auto& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

// The present environment without what a launcher of this test may have left, then `more`.
std::vector<std::string> environment_with(const std::vector<std::string>& more) {
  std::vector<std::string> out;
  for (char** each = environ; *each; ++each) {
    const std::string text = *each;
    const bool of_launcher =
        text.starts_with("OMPI_COMM_") || text.starts_with("PMIX_") || text.starts_with("SLURM_");
    if (!of_launcher) out.push_back(text);
  }
  for (const char* each : {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"})
    out.push_back(each);
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

}  // namespace

std::vector<MetricsLine> read_metrics(const std::filesystem::path& file) {
  std::vector<MetricsLine> lines;
  std::ifstream in(file);
  for (std::string text; std::getline(in, text) && !in.eof();)
    lines.push_back(metrics_line(text));  // whole lines only
  return lines;
}

TrainFolder::TrainFolder() {
  auto pattern = (std::filesystem::path(testing::TempDir()) / "fivefold-train-XXXXXX").string();
  FF_CHECK(::mkdtemp(pattern.data()) != nullptr, "cannot make ", pattern);
  root_ = pattern;
  write_tokens("a.tokens", 179, 64);  // 22 samples of 8 tokens
}

TrainFolder::~TrainFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(root_, ignored);
}

std::string TrainFolder::write_tokens(const std::string& name, std::int64_t tokens, std::int64_t vocab,
                                      std::uint64_t seed) const {
  const auto path = (root_ / name).string();
  TokenWriter writer(path, {.tokenizer = "test", .tokenizer_hash = "0123456789abcdef", .vocab = vocab});
  std::uint64_t i = 0;
  while (writer.tokens() < tokens) {
    const auto wanted = 1 + static_cast<std::int64_t>(philox_uniform(seed, 1, i++) * 12);
    std::vector<std::int32_t> ids;
    for (std::int64_t j = 0; j < std::min(wanted, tokens - writer.tokens()); ++j)
      ids.push_back(static_cast<std::int32_t>(philox_uniform(seed, 2, i++) * static_cast<double>(vocab)));
    writer.append(ids);
    writer.end_document();
  }
  writer.commit();
  return path;
}

std::vector<std::string> TrainFolder::arguments(const std::string& name,
                                                const std::vector<std::string>& more) const {
  std::vector<std::string> all{"--run.dir=" + (root_ / "runs").string(),
                               "--run.name=" + name,
                               "--run.seed=3",
                               "--run.steps=12",
                               "--model.family=llama",
                               "--model.layers=1",
                               "--model.hidden=12",
                               "--model.heads=2",
                               "--model.kv_heads=1",
                               "--model.ffn=10",
                               "--model.vocab=64",
                               "--model.context=8",
                               "--data.train=" + (root_ / "a.tokens").string(),
                               "--train.global_batch=4",
                               "--train.micro_batch=2",
                               "--optimizer.lr=1e-2",
                               "--optimizer.warmup_steps=3",
                               "--optimizer.min_lr=1e-3",
                               "--log.level=error"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::filesystem::path TrainFolder::checkpoint(const std::string& name, std::int64_t step) const {
  return run(name) / "checkpoints" / step_dir_name(step);
}

std::vector<std::string> TrainFolder::listing() const {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root_))
    paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

Process::Process(const std::vector<std::string>& words, const std::filesystem::path& output_file,
                 const std::vector<std::string>& environment)
    : output_file_(output_file) {
  auto arguments = words, variables = environment_with(environment);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, output_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  posix_spawnattr_t attributes;  // signals that this process ignores are not ignored there
  posix_spawnattr_init(&attributes);
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  const int failed = posix_spawnp(&id_, words[0].c_str(), &actions, &attributes, pointers(arguments).data(),
                                  pointers(variables).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  FF_CHECK_EQ(failed, 0, "cannot start ", words[0]);
}

Process::~Process() {
  if (ended()) return;
  kill(id_, SIGKILL);
  waitpid(id_, &status_, 0);
}

std::vector<pid_t> Process::children() const {
  std::istringstream in(text_of(str("/proc/", id_, "/task/", id_, "/children")));
  std::vector<pid_t> out;
  for (pid_t child = 0; in >> child;) out.push_back(child);
  return out;
}

bool Process::ended() {
  if (!ended_) ended_ = waitpid(id_, &status_, WNOHANG) == id_;
  return ended_;
}

Finished Process::wait() {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!ended() && std::chrono::steady_clock::now() < give_up)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  if (!ended()) {
    ADD_FAILURE() << "process " << id_ << " did not end:\n" << text_of(output_file_);
    kill(id_, SIGKILL);
    waitpid(id_, &status_, 0);
    ended_ = true;
  }
  return {.code = WIFEXITED(status_) ? WEXITSTATUS(status_) : -1, .output = text_of(output_file_)};
}

std::string program() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "launcher" /
          "fivefold")
      .string();
}

Finished run_program(const TrainFolder& folder, const std::vector<std::string>& arguments,
                     const std::vector<std::string>& environment) {
  std::vector<std::string> words{program()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const auto output =
      std::filesystem::path((folder / "").string().substr(0, (folder / "").string().size() - 1) + ".out");
  auto finished = Process(words, output, environment).wait();
  std::filesystem::remove(output);
  return finished;
}

}  // namespace fivefold::test
