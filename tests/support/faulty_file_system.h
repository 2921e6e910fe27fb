// A file system in memory that fails, dies or loses power where a test wants it. It remembers what was
// synchronised: bytes of files by sync, names in directories by sync_dir; everything else may be gone after a
// power loss.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "checkpoint/file_system.h"

namespace fivefold::test {

// What a power loss takes beside the process: nothing (a killed process), unsynchronised bytes,
// unsynchronised names, both.
enum class Loss { nothing, bytes, names, both };
constexpr Loss kLosses[] = {Loss::nothing, Loss::bytes, Loss::names, Loss::both};

class FaultyFileSystem final : public FileSystem {
 public:
  FaultyFileSystem();

  // Every change (create, append, sync, close, rename, remove, make_dir, sync_dir) is a call. From the `k`-th
  // call on (from now, counted from 0) nothing works any more, and that call is done by half at most.
  void die_at(std::int64_t k);
  // Calls for which `matches(operation, path)` is true throw IoError with `reason`.
  void fail_when(std::function<bool(const std::string& operation, const Path& path)> matches,
                 const std::string& reason);
  // The machine starts again after losing `loss`; faults are forgotten.
  void restart(Loss loss);
  std::int64_t calls() const;
  // Operations and paths of all calls so far, e.g. "sync /a/b".
  std::vector<std::string> history() const;

  // Damage at will.
  std::string bytes(const Path& path) const;
  void set_bytes(const Path& path, const std::string& bytes);

  std::unique_ptr<WritableFile> create(const Path& path) override;
  std::unique_ptr<ReadableFile> open(const Path& path) override;
  void rename(const Path& from, const Path& to) override;
  void remove(const Path& path) override;
  void make_dir(const Path& path) override;
  void sync_dir(const Path& path) override;
  std::vector<DirEntry> list(const Path& path) override;
  PathKind kind(const Path& path) override;

 private:
  struct Node;
  struct Writer;
  struct Reader;
  using NodePtr = std::shared_ptr<Node>;
  NodePtr find(const Path& path) const;  // null if there is none
  Node& directory_of(const Path& path) const;
  // Counts a call. True: go on. False: this is the fatal one, do half of it; throws if dead or failing.
  bool enter(const std::string& operation, const Path& path);
  void check_alive() const;
  static void lose(Node& node, Loss loss);

  mutable std::mutex mutex_;
  NodePtr root_;
  std::int64_t calls_ = 0, fatal_ = -1;
  bool dead_ = false;
  std::function<bool(const std::string&, const Path&)> matches_;
  std::string reason_;
  std::vector<std::string> history_;
};

}  // namespace fivefold::test
