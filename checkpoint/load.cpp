// A load is three agreements: on the manifest, on the names, on the outcome of the reads.
#include "checkpoint/load.h"

#include "checkpoint/hash.h"
#include "checkpoint/match.h"
#include "checkpoint/piece_io.h"
#include "checkpoint/staging.h"
#include "checkpoint/steps.h"

namespace fivefold {

namespace {

constexpr std::int64_t kManifestHeadBytes = 128;  // holds format, version and hash

// Rank 0's choice, as every rank knows it.
struct Choice {
  Path dir;
  Manifest manifest;
  std::uint64_t hash = 0;
};

std::string title(const Path& dir) { return "loading " + dir.string(); }

// The manifest hash that this rank's own view of the directory shows.
std::uint64_t visible_hash(FileSystem& fs, const Path& dir) {
  const Path path = dir / kManifestName;
  if (fs.kind(path) != PathKind::file)
    throw UserError(str("this rank does not see ", path.string(), "; is the folder shared?"));
  const auto file = fs.open(path);
  std::string head(static_cast<std::size_t>(std::min(kManifestHeadBytes, file->size())), '\0');
  file->read_at(0, std::as_writable_bytes(std::span(head)));
  return manifest_hash(head);
}

Choice agree_on_manifest(FileSystem& fs, const Path& given, Communicator* world) {
  const auto reply = from_rank_0(world, title(given), [&] {
    const auto text = read_manifest_text(fs, given);
    check_files(fs, given, manifest_from(text, (given / kManifestName).string()));
    return given.string() + "\n" + text;
  });
  const auto end_of_dir = reply.find('\n');
  const auto text = std::string_view(reply).substr(end_of_dir + 1);
  Choice choice{reply.substr(0, end_of_dir), {}, 0};
  together(world, title(choice.dir), [&] {
    choice.manifest = manifest_from(text, (choice.dir / kManifestName).string());
    choice.hash = manifest_hash(text);
    if (const auto seen = visible_hash(fs, choice.dir); seen != choice.hash)
      throw UserError(str("this rank sees another checkpoint (", hash_hex(seen), ") than rank 0 (",
                          hash_hex(choice.hash), ")"));
    return std::string();
  });
  return choice;
}

void read_tensors(FileSystem& fs, const Choice& choice, std::span<const LocalTensor> wanted) {
  PieceReader reader(fs, choice.dir);
  const auto reads = plan_reads(choice.manifest, wanted);
  LoadStaging staging(reads);
  for (const auto& read : reads) {
    const Tensor data = staging.destination(*read.wanted);
    FF_CHECK_EQ(data.count(), read.wanted->box.count(), read.wanted->name, " ", read.wanted->box);
    reader.read(*read.tensor, *read.piece,
                BoxFiller(read.piece->box, read.tensor->dtype, read.wanted->box, data.dtype(), data.raw()));
    staging.finished(*read.wanted);
  }
}

Loaded load_agreed(FileSystem& fs, const Path& dir, std::span<const LocalTensor> wanted, Communicator* world,
                   const LoadOptions& options) {
  const Choice choice = agree_on_manifest(fs, dir, world);
  const auto& what = title(choice.dir);
  const auto texts = together(world, what, [&] {
    if (options.accept) options.accept(choice.manifest.state);
    return match_text(choice.manifest, wanted, options);
  });
  Loaded loaded{choice.dir, choice.hash, choice.manifest.generation, choice.manifest.state,
                check_match(choice.manifest, texts, options)};
  together(world, what, [&] {
    read_tensors(fs, choice, wanted);
    return std::string();
  });
  return loaded;
}

// Complete checkpoints, newest first, one path a line; rank 0 warns of the others.
std::string candidates(FileSystem& fs, const Path& root, const Warn& warn) {
  if (!newest_complete(fs, root, warn)) return {};
  std::string dirs;
  for (const auto& info : newest_first(list_steps(fs, root))) dirs += info.dir.string() + "\n";
  return dirs;
}

}  // namespace

Loaded load(FileSystem& fs, const Path& dir, std::span<const LocalTensor> wanted, Communicator& world,
            const LoadOptions& options) {
  return load_agreed(fs, dir, wanted, &world, options);
}

Loaded load(FileSystem& fs, const Path& dir, std::span<const LocalTensor> wanted,
            const LoadOptions& options) {
  return load_agreed(fs, dir, wanted, nullptr, options);
}

std::optional<Loaded> load_newest(FileSystem& fs, const Path& root, std::span<const LocalTensor> wanted,
                                  Communicator& world, const LoadOptions& options, const Warn& warn) {
  std::istringstream dirs(from_rank_0(&world, title(root), [&] { return candidates(fs, root, warn); }));
  std::string dir, problems;
  while (std::getline(dirs, dir)) {
    try {
      const Loaded loaded = load(fs, dir, wanted, world, options);
      // A tensor that this one lacks may hold values of the broken one tried before.
      if (!problems.empty() && !loaded.missing.empty())
        throw UserError(str(problems, "; the older ", dir, " lacks ", loaded.missing.front(),
                            " and cannot take its place"));
      return loaded;
    } catch (const CorruptCheckpoint& e) {
      problems += (problems.empty() ? "" : "; ") + std::string(e.what());
      if (world.rank() == 0) warn(str("passed over ", dir, ": ", e.what()));
    }
  }
  if (!problems.empty())
    throw CorruptCheckpoint(str("no checkpoint in ", root.string(), " is whole: ", problems));
  return std::nullopt;
}

}  // namespace fivefold
