#include "io/atomic_file.hpp"

#include "base/process_environment.hpp"
#include "common/system.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <memory>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

namespace libhvd {
namespace {

// Buffered data is written to the disk in portions of this size.
constexpr std::uint64_t kWriteBackBytes = std::uint64_t{8} << 20;

// Returns the host's name for a temporary name: at most 64 bytes (HOST_NAME_MAX), without dots,
// because these separate the parts.
std::string host_word() {
  std::string word = local_host_name();
  for (char& letter : word) {
    if (letter == '.' || letter == '/') letter = '-';
  }
  return word;
}

std::string prefix_of(std::string_view kind) {
  return ".hvd-" + std::string(kind) + ".";
}

Result<std::string> temporary_name(std::string_view kind) {
  HVD_TRY(const auto nonce, random_bytes<8>());
  return prefix_of(kind) + host_word() + "." + std::to_string(::getpid()) + "." + to_hex(nonce);
}

// Returns the pid in a temporary name of `kind` if its writer ran on this host; 0 for other names.
pid_t local_writer(std::string_view name, std::string_view kind) {
  const std::string prefix = prefix_of(kind) + host_word() + ".";
  if (!name.starts_with(prefix)) return 0;
  pid_t pid = 0;
  const char* const begin = name.data() + prefix.size();
  const char* const end = name.data() + name.size();
  const auto [stop, code] = std::from_chars(begin, end, pid);
  return code == std::errc() && stop != end && *stop == '.' ? pid : 0;
}

bool aligned(std::uintptr_t number) {
  return number % AtomicFile::kDirectAlignment == 0;
}

}  // namespace

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Result<void> flush_folder(const std::string& folder) {
  const Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return fail_errno("cannot open the folder " + folder, errno);
  if (::fsync(fd.get()) != 0 && errno != EINVAL)
    return fail_errno("cannot flush the folder " + folder, errno);
  return {};
}

Result<AtomicFile> AtomicFile::create(const std::string& path, const AtomicFileOptions& options) {
  HVD_TRY(const std::string name, temporary_name(options.kind));
  std::string temporary = folder_of(path) + "/" + name;
  Fd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!fd) return fail_errno("cannot create a file for " + path, errno);
  return AtomicFile(path, std::move(temporary), std::move(fd), options.direct);
}

AtomicFile::AtomicFile(std::string path, std::string temporary, Fd fd, bool direct)
    : path_(std::move(path)), temporary_(std::move(temporary)), fd_(std::move(fd)) {
  direct_ = direct && set_direct(true);
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      fd_(std::move(other.fd_)),
      direct_(other.direct_),
      size_(other.size_),
      write_back_from_(other.write_back_from_) {}

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  if (this == &other) return *this;
  discard();
  path_ = std::move(other.path_);
  temporary_ = std::exchange(other.temporary_, {});
  fd_ = std::move(other.fd_);
  direct_ = other.direct_;
  size_ = other.size_;
  write_back_from_ = other.write_back_from_;
  return *this;
}

AtomicFile::~AtomicFile() {
  discard();
}

void AtomicFile::discard() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
  fd_.reset();
}

bool AtomicFile::set_direct(bool on) {
  const int flags = ::fcntl(fd_.get(), F_GETFL);
  return flags >= 0 && ::fcntl(fd_.get(), F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

Result<void> AtomicFile::write(const void* data, std::size_t bytes) {
  if (!fd_) return fail(HVD_ERROR_INVALID_ARGUMENT, path_ + ": written to after its end");
  const auto* at = static_cast<const std::byte*>(data);
  const auto fits = [&] {
    return aligned(reinterpret_cast<std::uintptr_t>(at)) && aligned(bytes) && aligned(size_);
  };
  while (bytes > 0) {
    // Checked in each round, because a short write may end anywhere.
    if (direct_ && !fits()) {
      set_direct(false);
      direct_ = false;
      write_back_from_ = size_;
    }
    HVD_CHECK(write_once(at, bytes));
  }
  if (!direct_) start_write_back();
  return {};
}

Result<void> AtomicFile::write_once(const std::byte*& data, std::size_t& bytes) {
  const ssize_t count = ::write(fd_.get(), data, bytes);
  if (count >= 0) {
    data += count;
    bytes -= static_cast<std::size_t>(count);
    size_ += static_cast<std::uint64_t>(count);
    return {};
  }
  if (errno == EINTR) return {};
  if (errno == EINVAL && direct_) {  // the file system has O_DIRECT, but not for such a write
    set_direct(false);
    direct_ = false;
    write_back_from_ = size_;
    return {};
  }
  return fail_errno("cannot write " + path_, errno);
}

// Starts writing to the disk what is in the page cache. Only a hint: commit() reports errors.
void AtomicFile::start_write_back() {
  if (size_ - write_back_from_ < kWriteBackBytes) return;
  ::sync_file_range(fd_.get(), static_cast<off64_t>(write_back_from_),
                    static_cast<off64_t>(size_ - write_back_from_), SYNC_FILE_RANGE_WRITE);
  write_back_from_ = size_;
}

Result<void> AtomicFile::commit() {
  if (!fd_) return fail(HVD_ERROR_INVALID_ARGUMENT, path_ + ": committed after its end");
  Result<void> outcome;
  if (::fsync(fd_.get()) != 0) {
    outcome = fail_errno("cannot bring " + path_ + " to the disk", errno);
  } else if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    outcome = fail_errno("cannot give " + path_ + " its name", errno);
  } else {
    temporary_.clear();
    outcome = flush_folder(folder_of(path_));
  }
  discard();
  return outcome;
}

void remove_temporary_files(const std::string& folder, std::string_view kind, bool all) {
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(folder.c_str()), ::closedir);
  if (listing == nullptr) return;
  const std::string prefix = prefix_of(kind);
  while (const dirent* entry = ::readdir(listing.get())) {
    const std::string_view name = entry->d_name;
    if (!name.starts_with(prefix)) continue;
    const pid_t writer = local_writer(name, kind);
    const bool dead = writer > 0 && ::kill(writer, 0) != 0 && errno == ESRCH;
    if (all || dead) ::unlinkat(::dirfd(listing.get()), entry->d_name, 0);
  }
}

}  // namespace libhvd
