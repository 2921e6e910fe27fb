#include "tests/support/faulty_file_system.h"

#include <cstring>

namespace fivefold::test {

struct FaultyFileSystem::Node {
  bool directory = false;
  std::string bytes, synced;
  std::map<std::string, NodePtr> names, synced_names;
};

struct FaultyFileSystem::Writer final : WritableFile {
  Writer(FaultyFileSystem& owner, NodePtr file, Path where)
      : fs(owner), node(std::move(file)), path(std::move(where)) {}
  void append(std::span<const std::byte> bytes) override {
    std::lock_guard lock(fs.mutex_);
    const bool whole = fs.enter("append", path);
    node->bytes.append(reinterpret_cast<const char*>(bytes.data()), whole ? bytes.size() : bytes.size() / 2);
    fs.check_alive();
  }
  void sync() override {
    std::lock_guard lock(fs.mutex_);
    if (fs.enter("sync", path)) node->synced = node->bytes;
    fs.check_alive();
  }
  void close() override {
    std::lock_guard lock(fs.mutex_);
    fs.enter("close", path);
    fs.check_alive();
  }
  FaultyFileSystem& fs;
  NodePtr node;
  Path path;
};

struct FaultyFileSystem::Reader final : ReadableFile {
  Reader(FaultyFileSystem& owner, NodePtr file, Path where)
      : fs(owner), node(std::move(file)), path(std::move(where)) {}
  std::int64_t size() const override {
    std::lock_guard lock(fs.mutex_);
    return static_cast<std::int64_t>(node->bytes.size());
  }
  void read_at(std::int64_t offset, std::span<std::byte> out) const override {
    std::lock_guard lock(fs.mutex_);
    fs.check_alive();
    if (static_cast<std::size_t>(offset) + out.size() > node->bytes.size())
      throw IoError(str("cannot read ", path.string(), ": it ends"));
    if (!out.empty()) std::memcpy(out.data(), node->bytes.data() + offset, out.size());
  }
  FaultyFileSystem& fs;
  NodePtr node;
  Path path;
};

FaultyFileSystem::FaultyFileSystem() : root_(std::make_shared<Node>()) { root_->directory = true; }

void FaultyFileSystem::die_at(std::int64_t k) {
  std::lock_guard lock(mutex_);
  fatal_ = calls_ + k;
}

void FaultyFileSystem::fail_when(std::function<bool(const std::string&, const Path&)> matches,
                                 const std::string& reason) {
  std::lock_guard lock(mutex_);
  matches_ = std::move(matches);
  reason_ = reason;
}

void FaultyFileSystem::lose(Node& node, Loss loss) {
  if (!node.directory) {
    if (loss == Loss::bytes || loss == Loss::both) node.bytes = node.synced;
    return;
  }
  if (loss == Loss::names || loss == Loss::both) node.names = node.synced_names;
  for (auto& [name, child] : node.names) lose(*child, loss);
}

void FaultyFileSystem::restart(Loss loss) {
  std::lock_guard lock(mutex_);
  lose(*root_, loss);
  fatal_ = -1;
  dead_ = false;
  matches_ = nullptr;
}

std::int64_t FaultyFileSystem::calls() const {
  std::lock_guard lock(mutex_);
  return calls_;
}

std::vector<std::string> FaultyFileSystem::history() const {
  std::lock_guard lock(mutex_);
  return history_;
}

void FaultyFileSystem::check_alive() const {
  if (dead_) throw IoError("the machine is dead");
}

bool FaultyFileSystem::enter(const std::string& operation, const Path& path) {
  check_alive();
  history_.push_back(operation + " " + path.string());
  if (matches_ && matches_(operation, path))
    throw IoError(str("cannot ", operation, " ", path.string(), ": ", reason_));
  dead_ = calls_++ == fatal_;
  return !dead_;
}

FaultyFileSystem::NodePtr FaultyFileSystem::find(const Path& path) const {
  NodePtr node = root_;
  for (const auto& part : path.relative_path()) {
    const auto found = node->names.find(part.string());
    if (found == node->names.end()) return nullptr;
    node = found->second;
  }
  return node;
}

FaultyFileSystem::Node& FaultyFileSystem::directory_of(const Path& path) const {
  const auto node = find(path.parent_path());
  if (!node || !node->directory) throw IoError(str("no directory for ", path.string()));
  return *node;
}

std::string FaultyFileSystem::bytes(const Path& path) const {
  std::lock_guard lock(mutex_);
  return find(path)->bytes;
}

void FaultyFileSystem::set_bytes(const Path& path, const std::string& bytes) {
  std::lock_guard lock(mutex_);
  find(path)->bytes = bytes;
}

std::unique_ptr<WritableFile> FaultyFileSystem::create(const Path& path) {
  std::lock_guard lock(mutex_);
  auto& directory = directory_of(path);
  if (enter("create", path)) {
    auto& node = directory.names[path.filename().string()];
    if (!node) node = std::make_shared<Node>();
    node->bytes.clear();
  }
  check_alive();
  return std::make_unique<Writer>(*this, find(path), path);
}

std::unique_ptr<ReadableFile> FaultyFileSystem::open(const Path& path) {
  std::lock_guard lock(mutex_);
  check_alive();
  auto node = find(path);
  if (!node || node->directory) throw IoError(str("cannot open ", path.string()));
  return std::make_unique<Reader>(*this, std::move(node), path);
}

void FaultyFileSystem::rename(const Path& from, const Path& to) {
  std::lock_guard lock(mutex_);
  const auto node = find(from);
  if (!node || (node->directory && find(to)))
    throw IoError(str("cannot rename ", from.string(), " to ", to.string()));
  auto& target = directory_of(to);
  if (enter("rename", from)) {
    directory_of(from).names.erase(from.filename().string());
    target.names[to.filename().string()] = node;
  }
  check_alive();
}

void FaultyFileSystem::remove(const Path& path) {
  std::lock_guard lock(mutex_);
  const auto node = find(path);
  if (!node || !node->names.empty()) throw IoError(str("cannot remove ", path.string()));
  if (enter("remove", path)) directory_of(path).names.erase(path.filename().string());
  check_alive();
}

void FaultyFileSystem::make_dir(const Path& path) {
  std::lock_guard lock(mutex_);
  if (find(path)) throw IoError(str("cannot make directory ", path.string(), ": it exists"));
  if (enter("make_dir", path)) {
    auto node = std::make_shared<Node>();
    node->directory = true;
    directory_of(path).names[path.filename().string()] = node;
  }
  check_alive();
}

void FaultyFileSystem::sync_dir(const Path& path) {
  std::lock_guard lock(mutex_);
  const auto node = find(path);
  if (!node || !node->directory) throw IoError(str("no directory ", path.string()));
  if (enter("sync_dir", path)) node->synced_names = node->names;
  check_alive();
}

std::vector<DirEntry> FaultyFileSystem::list(const Path& path) {
  std::lock_guard lock(mutex_);
  check_alive();
  const auto node = find(path);
  if (!node || !node->directory) throw IoError(str("cannot list ", path.string()));
  std::vector<DirEntry> entries;
  for (const auto& [name, child] : node->names) entries.push_back({name, child->directory});
  return entries;
}

PathKind FaultyFileSystem::kind(const Path& path) {
  std::lock_guard lock(mutex_);
  check_alive();
  const auto node = find(path);
  return !node ? PathKind::none : node->directory ? PathKind::directory : PathKind::file;
}

}  // namespace fivefold::test
