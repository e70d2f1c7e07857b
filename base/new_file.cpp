#include "base/new_file.hpp"

#include "base/system.hpp"
#include "common/uninterrupted.hpp"
#include "common/write_all.hpp"

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hvdrun {
namespace {

// Returns whether the file passes on what is written to it, so that no file can replace it: a pipe,
// also one that links of /dev/fd lead to, or a device such as /dev/null.
bool is_stream(const char* file) {
  struct stat found {};
  if (::lstat(file, &found) == 0 && S_ISCHR(found.st_mode)) return true;
  return ::stat(file, &found) == 0 && S_ISFIFO(found.st_mode);
}

}  // namespace

Result<NewFile> NewFile::create(const std::filesystem::path& file, const std::string& cannot,
                                int exit_code) {
  NewFile made(file, cannot, exit_code);
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) return made.cannot_write(EISDIR);
  if (is_stream(file.c_str())) {
    if (::access(file.c_str(), W_OK) != 0) return made.cannot_write(errno);
    return made;
  }
  std::string part = file.string() + ".part-" + random_hex(8);
  made.fd_.reset(common::uninterrupted(
      [&] { return ::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); }));
  if (!made.fd_) return made.cannot_write(errno);
  made.part_ = std::move(part);
  return made;
}

NewFile::NewFile(std::filesystem::path file, std::string cannot, int exit_code)
    : file_(std::move(file)), cannot_(std::move(cannot)), exit_code_(exit_code) {}

NewFile::NewFile(NewFile&& other) noexcept
    : file_(std::move(other.file_)),
      cannot_(std::move(other.cannot_)),
      exit_code_(other.exit_code_),
      part_(std::exchange(other.part_, {})),
      fd_(std::move(other.fd_)) {}

NewFile::~NewFile() {
  if (!part_.empty()) ::unlink(part_.c_str());
}

Error NewFile::cannot_write(int error) const {
  return fail_errno(cannot_, error, exit_code_);
}

Result<void> NewFile::commit(std::string_view text) {
  if (part_.empty()) {
    // O_NONBLOCK makes a pipe without a reader an error, instead of a wait for one.
    fd_.reset(common::uninterrupted(
        [&] { return ::open(file_.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC); }));
    if (!fd_ || ::fcntl(fd_.get(), F_SETFL, 0) != 0) return cannot_write(errno);
  }
  if (!common::write_all(fd_.get(), text)) return cannot_write(errno);
  if (part_.empty()) return {};
  if (std::rename(part_.c_str(), file_.c_str()) != 0) return cannot_write(errno);
  part_.clear();
  return {};
}

}  // namespace hvdrun
