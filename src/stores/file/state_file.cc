// SPDX-License-Identifier: Apache-2.0
#include "stores/file/state_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

namespace weir::stores {
namespace {

constexpr std::size_t kLargest = std::size_t{64} << 20U;
constexpr mode_t kOwnerOnly = S_IRUSR | S_IWUSR;
// Clocks are put right by a little all the time.
constexpr Duration kPutRight = std::chrono::minutes(1);
constexpr Duration kUnknownAge = std::chrono::hours(24);

/// A descriptor that is closed at the end of its scope.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return number_; }
  [[nodiscard]] bool valid() const { return number_ >= 0; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

std::unexpected<Error> trouble_with(std::string_view what, const std::string& path, int number,
                                    std::string_view fix) {
  return fail(ErrorCode::io,
              fmt::format("stores.state: cannot {} {}: {}; {}", what, path,
                          std::generic_category().message(number), fix),
              Origin::store);
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

bool write_whole(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

/// The whole of a file; false with `errno`, or with EFBIG where it is too large.
bool read_whole(int descriptor, std::string& text) {
  std::array<char, 65536> piece{};
  while (true) {
    const ssize_t got = ::read(descriptor, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    if (got == 0) return true;
    text.append(piece.data(), static_cast<std::size_t>(got));
    if (text.size() > kLargest) {
      errno = EFBIG;
      return false;
    }
  }
}

/// Where a link leads: the file there is replaced, not the link.
std::string followed(const std::string& path) {
  constexpr int kLinks = 8;
  std::filesystem::path at(path);
  std::error_code trouble;
  for (int links = 0; links < kLinks && std::filesystem::is_symlink(at, trouble); ++links) {
    const std::filesystem::path target = std::filesystem::read_symlink(at, trouble);
    if (trouble) break;
    at = at.parent_path() / target;
  }
  return at.string();
}

}  // namespace

MemoryAge age_between(const Moment& written, const Moment& now, bool complete) {
  MemoryAge age;
  age.complete = complete;
  if (!now.boot.empty() && written.boot == now.boot && now.since_boot >= written.since_boot) {
    age.at_least = age.at_most = now.since_boot - written.since_boot;
    return age;
  }
  std::int64_t passed = 0;
  if (__builtin_sub_overflow(now.wall.time_since_epoch().count(),
                             written.wall.time_since_epoch().count(), &passed)) {
    passed = now.wall > written.wall ? INT64_MAX : INT64_MIN;
  }
  age.at_least = std::max(Duration{0}, Duration(passed));
  age.at_most = Duration(passed) < -kPutRight ? kUnknownAge : age.at_least;
  return age;
}

Result<void> check_state_path(const std::string& path) {
  struct stat found{};
  const std::string file = followed(path);
  const std::string folder = folder_of(file);
  if (stat(folder.c_str(), &found) != 0) {
    return trouble_with("use the folder", folder, errno,
                        "create it, owned by the user that runs weir");
  }
  if (!S_ISDIR(found.st_mode)) {
    return trouble_with("use the folder", folder, ENOTDIR, "name a file in a folder");
  }
  if (stat(file.c_str(), &found) == 0 && !S_ISREG(found.st_mode)) {
    return fail(ErrorCode::io,
                fmt::format("stores.state: {} is not a file; name a file in a folder that weir may "
                            "write to",
                            file),
                Origin::store);
  }
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    return trouble_with("write to the folder", folder, errno,
                        "let the user that runs weir write there");
  }
  return {};
}

StateFile::StateFile(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}

StateFile::~StateFile() { close(lock_); }

Result<std::unique_ptr<StateFile>> StateFile::open(const std::string& path) {
  if (auto good = check_state_path(path); !good) return fail(good.error());
  const std::string file = followed(path);
  const std::string lock_path = file + ".lock";
  Descriptor lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kOwnerOnly));
  if (!lock.valid()) {
    return trouble_with("open", lock_path, errno, "let the user that runs weir write there");
  }
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) {
      return trouble_with("lock", lock_path, errno, "keep it on a file system that has locks");
    }
    return fail(ErrorCode::io,
                fmt::format("stores.state: {} is in use by another weir process; give each process "
                            "a file of its own",
                            file),
                Origin::store);
  }
  return std::unique_ptr<StateFile>(new StateFile(file, lock.release()));
}

Result<FoundMemory> StateFile::read(const Moment& now) {
  FoundMemory found;
  std::string text;
  {
    const Descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.valid()) {
      if (errno == ENOENT) return found;
      return trouble_with("read", path_, errno,
                          "let the user that runs weir read it, or remove it");
    }
    if (!read_whole(file.get(), text) && errno != EFBIG) {
      return trouble_with("read", path_, errno,
                          "let the user that runs weir read it, or remove it");
    }
  }
  auto written = text.size() > kLargest
                     ? Result<WrittenMemory>(fail(ErrorCode::too_large, "it is larger than 64 MiB"))
                     : memory_from_json(text);
  if (!written) {
    const std::string aside = path_ + ".bad";
    if (rename(path_.c_str(), aside.c_str()) != 0) {
      return trouble_with("rename", path_, errno, "remove it");
    }
    found.put_aside = true;
    found.trouble = fmt::format("{}: {}; it was renamed to {} and is not used", path_,
                                written.error().text, aside);
    return found;
  }
  found.age = age_between(written->written, now, written->complete);
  found.memory = std::move(written->memory);
  if (found.age.at_least != found.age.at_most) {
    found.trouble = fmt::format(
        "{}: it was written {} s in the future by this machine's clock; what was charged counts as "
        "charged just now; check the clock",
        path_,
        std::chrono::duration_cast<std::chrono::seconds>(written->written.wall - now.wall).count());
  }
  return found;
}

Result<void> StateFile::write(const WrittenMemory& memory) {
  const std::string text = memory_to_json(memory);
  const std::string fresh = path_ + ".tmp";
  {
    const Descriptor file(
        ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, kOwnerOnly));
    if (!file.valid()) return trouble_with("write", fresh, errno, "check the folder");
    // A left one may have other permissions.
    if (fchmod(file.get(), kOwnerOnly) != 0 || !write_whole(file.get(), text) ||
        fsync(file.get()) != 0) {
      const int number = errno;
      unlink(fresh.c_str());
      return trouble_with("write", fresh, number, "free space on its file system");
    }
  }
  if (rename(fresh.c_str(), path_.c_str()) != 0) {
    return trouble_with("replace", path_, errno, "check the folder");
  }
  const std::string folder = folder_of(path_);
  const Descriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid() || fsync(directory.get()) != 0) {
    return trouble_with("write", folder, errno, "check the folder");
  }
  return {};
}

}  // namespace weir::stores
