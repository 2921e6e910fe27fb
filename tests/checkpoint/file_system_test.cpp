// The operating system's files and the faulty ones that stand in for them: both keep the same promises.
#include "tests/checkpoint/checkpoint_testing.h"
#include "tests/checkpoint/temp_dir.h"

namespace fivefold::test {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

void write(FileSystem& fs, const Path& path, const std::string& text) {
  const auto file = fs.create(path);
  file->append(bytes_of(text));
  file->sync();
  file->close();
}

void check_promises(FileSystem& fs, const Path& dir) {
  make_dirs_durably(fs, dir / "a" / "b");
  make_dirs_durably(fs, dir / "a" / "b");
  EXPECT_TRUE(contains(message_of([&] { fs.make_dir(dir / "a"); }), "cannot make directory"));
  write(fs, dir / "a" / "file", "first");
  write(fs, dir / "a" / "file", "second text");
  EXPECT_EQ(read_text(fs, dir / "a" / "file"), "second text");
  const auto file = fs.open(dir / "a" / "file");
  EXPECT_EQ(file->size(), 11);
  std::string part(4, ' ');
  file->read_at(7, std::as_writable_bytes(std::span(part)));
  EXPECT_EQ(part, "text");
  EXPECT_TRUE(
      contains(message_of([&] { file->read_at(8, std::as_writable_bytes(std::span(part))); }), "it ends"));
  EXPECT_EQ(fs.list(dir / "a"), (std::vector<DirEntry>{{"b", true}, {"file", false}}));
  EXPECT_EQ(fs.kind(dir / "a"), PathKind::directory);
  EXPECT_EQ(fs.kind(dir / "a" / "file"), PathKind::file);
  EXPECT_EQ(fs.kind(dir / "nothing"), PathKind::none);
  EXPECT_THROW(fs.remove(dir / "a"), IoError);  // not empty
  write_text_durably(fs, dir / "a" / "file", "third");
  EXPECT_EQ(read_text(fs, dir / "a" / "file"), "third");
  fs.make_dir(dir / "taken");
  EXPECT_THROW(fs.rename(dir / "a", dir / "taken"), IoError);
  fs.rename(dir / "a", dir / "moved");
  fs.sync_dir(dir);
  EXPECT_EQ(read_text(fs, dir / "moved" / "file"), "third");
  remove_tree(fs, dir / "moved");
  remove_tree(fs, dir / "moved");
  EXPECT_EQ(fs.list(dir), (std::vector<DirEntry>{{"taken", true}}));
}

TEST(FileSystems, KeepTheSamePromises) {
  const TempDir temp;
  PosixFileSystem posix;
  check_promises(posix, temp.path());
  FaultyFileSystem faulty;
  check_promises(faulty, "/");
}

TEST(PosixFiles, ErrorsNameOperationPathAndReason) {
  const TempDir temp;
  PosixFileSystem fs;
  const auto missing = temp.path() / "no" / "file";
  EXPECT_EQ(message_of([&] { fs.create(missing); }),
            str("cannot create ", missing.string(), ": No such file or directory"));
  EXPECT_EQ(message_of([&] { fs.open(missing); }),
            str("cannot open ", missing.string(), ": No such file or directory"));
  EXPECT_EQ(message_of([&] { fs.list(missing); }),
            str("cannot list ", missing.string(), ": No such file or directory"));
  EXPECT_EQ(message_of([&] { fs.remove(missing); }),
            str("cannot remove ", missing.string(), ": No such file or directory"));
  EXPECT_EQ(message_of([&] { fs.open(temp.path()); }),
            str("cannot open ", temp.path().string(), ": it is not a file"));
  EXPECT_TRUE(
      contains(message_of([&] { fs.rename(missing, temp.path() / "x"); }), "No such file or directory"));
  EXPECT_TRUE(contains(message_of([&] { fs.sync_dir(missing); }), "No such file or directory"));
}

TEST(PosixFiles, AFullDeviceIsAnError) {
  PosixFileSystem fs;
  if (fs.kind("/dev/full") == PathKind::none) GTEST_SKIP() << "this system has no /dev/full";
  const auto file = fs.create("/dev/full");
  EXPECT_EQ(message_of([&] { file->append(bytes_of("x")); }),
            "cannot write /dev/full: No space left on device");
}

// The model that the crash tests rest on: it must forget.
TEST(FaultyFiles, LoseWhatWasNotSynchronised) {
  for (const auto loss : kLosses) {
    FaultyFileSystem fs;
    write(fs, "/kept", "synchronised");
    fs.sync_dir("/");
    const auto file = fs.create("/new");
    file->append(bytes_of("never synchronised"));
    fs.restart(loss);
    EXPECT_EQ(read_text(fs, "/kept"), "synchronised");
    const bool has_name = loss == Loss::nothing || loss == Loss::bytes;
    ASSERT_EQ(fs.kind("/new"), has_name ? PathKind::file : PathKind::none);
    if (has_name) {
      EXPECT_EQ(read_text(fs, "/new").empty(), loss == Loss::bytes);
    }
  }
}

TEST(FaultyFiles, DieInTheMiddleOfACall) {
  FaultyFileSystem fs;
  const auto file = fs.create("/x");
  fs.die_at(1);
  file->append(bytes_of("1234"));
  EXPECT_THROW(file->append(bytes_of("5678")), IoError);
  EXPECT_THROW(file->sync(), IoError);
  EXPECT_THROW(fs.kind("/x"), IoError);
  fs.restart(Loss::nothing);
  EXPECT_EQ(read_text(fs, "/x"), "123456");
}

}  // namespace
}  // namespace fivefold::test
