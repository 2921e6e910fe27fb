// Training runs as a user starts them, in a folder that goes away: token files, command lines, what a run
// left behind, and the real program as a process of its own.
#pragma once
#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace fivefold::test {

struct MetricsLine {
  std::vector<std::string> keys;  // in the file's order
  bool valid = false;             // a line of the validation split
  std::int64_t step = 0, samples = 0, valid_tokens = 0, skipped = 0;
  double loss = 0, grad_norm = 0, lr = 0;
};
std::vector<MetricsLine> read_metrics(const std::filesystem::path& file);  // none if there is no such file

// What a run of the program leaves: its exit code and all it printed.
struct Finished {
  int code = -1;
  std::string output;
};

class TrainFolder {
 public:
  TrainFolder();
  ~TrainFolder();
  TrainFolder(const TrainFolder&) = delete;
  TrainFolder& operator=(const TrainFolder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return root_ / name; }

  // A token file of random ids below `vocab` in documents of 1 to 12 tokens.
  std::string write_tokens(const std::string& name, std::int64_t tokens, std::int64_t vocab,
                           std::uint64_t seed = 1) const;
  // `train` arguments for a tiny llama on NAME/a.tokens (see write_tokens) in the run folder/runs/NAME;
  // `more` come last, so they win.
  std::vector<std::string> arguments(const std::string& name, const std::vector<std::string>& more) const;
  std::filesystem::path run(const std::string& name) const { return root_ / "runs" / name; }
  std::filesystem::path checkpoint(const std::string& name, std::int64_t step) const;
  std::vector<MetricsLine> metrics(const std::string& name) const {
    return read_metrics(run(name) / "metrics.jsonl");
  }
  // Every path below the folder, sorted: to see that nothing was made.
  std::vector<std::string> listing() const;

 private:
  std::filesystem::path root_;
};

// A process that was started and not waited for. Killed at the end if it still runs.
class Process {
 public:
  // `words[0]` is looked up in PATH; both outputs go to `output_file`. `environment` is added to the present
  // one.
  Process(const std::vector<std::string>& words, const std::filesystem::path& output_file,
          const std::vector<std::string>& environment = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  pid_t id() const { return id_; }
  std::vector<pid_t> children() const;  // direct ones
  bool ended();
  Finished wait();  // for at most 60 s, then kills and fails

 private:
  pid_t id_ = -1;
  int status_ = 0;
  bool ended_ = false;
  std::filesystem::path output_file_;
};

// The program built beside this test.
std::string program();
// Runs it to its end.
Finished run_program(const TrainFolder& folder, const std::vector<std::string>& arguments,
                     const std::vector<std::string>& environment = {});

}  // namespace fivefold::test
