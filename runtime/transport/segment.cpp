#include "transport/segment.hpp"

#include "base/hex.hpp"
#include "base/random.hpp"

#include <cerrno>
#include <cstring>
#include <new>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace libhvd {
namespace {

constexpr std::uint64_t kMagic = 0x314d485344564844u;  // "DHVDSHM1" in memory
constexpr std::uint32_t kVersion = 1;

std::size_t bytes_for(int size) {
  return sizeof(SegmentHeader) + static_cast<std::size_t>(size) * sizeof(RankBlock);
}

Result<Mapping> map(int file, std::size_t bytes) {
  const int flags = file < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
  if (address == MAP_FAILED) {
    return fail_errno("cannot map " + std::to_string(bytes) + " bytes of shared memory", errno);
  }
  return Mapping(address, bytes);
}

// New memory reads as zero, which is every field's first value; only these differ.
void begin_lifetime(const Mapping& mapping, int size, const Nonce& nonce) {
  auto* header = new (mapping.data()) SegmentHeader{};
  header->size = static_cast<std::uint32_t>(size);
  header->nonce = nonce;
  header->version = kVersion;
  header->magic = kMagic;
}

Error no_room(const std::string& directory, std::size_t bytes, int size, int errno_value) {
  Error error = fail_errno("the shared memory in " + directory + " has no room for " +
                               std::to_string((bytes + 1023) / 1024) + " KiB, which " +
                               std::to_string(size) + " ranks need",
                           errno_value);
  error.message +=
      ". Free some, make it larger (in a container: --shm-size), or name another directory of "
      "memory in HVD_SHM_DIR";
  return error;
}

struct flock byte_of(int rank) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return lock;
}

}  // namespace

Result<Segment> Segment::anonymous(int size) {
  HVD_TRY(Mapping mapping, map(-1, bytes_for(size)));
  begin_lifetime(mapping, size, Nonce{});
  return Segment(Fd(), std::move(mapping), SegmentName{}, false);
}

Result<Segment> Segment::create(const std::string& directory, const std::string& job_id, int size) {
  SegmentName name;
  HVD_TRY(name.nonce, random_bytes<sizeof(Nonce)>());
  name.path = directory + "/hvd-" + job_id + "-" + to_hex(name.nonce);
  Fd file(::open(name.path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return fail_errno("cannot create shared memory as " + name.path, errno);
  Segment segment(std::move(file), Mapping(), std::move(name), true);  // removes it if we fail

  // Not ftruncate: a full tmpfs would be noticed only by a SIGBUS in the middle of training.
  const std::size_t bytes = bytes_for(size);
  const int refused = ::posix_fallocate(segment.file_.get(), 0, static_cast<off_t>(bytes));
  if (refused != 0) return no_room(directory, bytes, size, refused);
  HVD_TRY(segment.mapping_, map(segment.file_.get(), bytes));
  begin_lifetime(segment.mapping_, size, segment.name_.nonce);
  return segment;
}

Result<Segment> Segment::open(const SegmentName& name, int size) {
  Fd file(::open(name.path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!file) {
    Error error = fail_errno("cannot open " + name.path, errno);
    if (errno == ENOENT || errno == ENOTDIR) error.status = HVD_ERROR_UNSUPPORTED;
    return error;
  }
  const std::size_t bytes = bytes_for(size);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return fail_errno("cannot stat " + name.path, errno);
  if (static_cast<std::size_t>(status.st_size) != bytes) {
    return fail(HVD_ERROR_UNSUPPORTED, name.path + " is not the segment of rank 0: its size is " +
                                           std::to_string(status.st_size) + ", not " +
                                           std::to_string(bytes));
  }
  HVD_TRY(Mapping mapping, map(file.get(), bytes));
  const auto* header = reinterpret_cast<const SegmentHeader*>(mapping.data());
  if (header->magic != kMagic || header->version != kVersion || header->nonce != name.nonce ||
      header->size != static_cast<std::uint32_t>(size)) {
    return fail(HVD_ERROR_UNSUPPORTED, name.path + " is not the segment of rank 0");
  }
  return Segment(std::move(file), std::move(mapping), name, false);
}

Segment::Segment(Segment&& other) noexcept
    : file_(std::move(other.file_)),
      mapping_(std::move(other.mapping_)),
      name_(std::move(other.name_)),
      named_(std::exchange(other.named_, false)) {}

Segment::~Segment() {
  remove_name();
}

void Segment::remove_name() {
  if (named_) ::unlink(name_.path.c_str());
  named_ = false;
}

RankBlock& Segment::block(int rank) const {
  std::byte* first = mapping_.data() + sizeof(SegmentHeader);
  return reinterpret_cast<RankBlock*>(first)[rank];
}

Outcome Segment::announce(int rank) {
  block(rank).pid.store(static_cast<std::uint32_t>(::getpid()), std::memory_order_relaxed);
  if (!file_) return Done{};
  struct flock lock = byte_of(rank);
  if (::fcntl(file_.get(), F_SETLK, &lock) != 0) {
    return fail_errno("cannot lock the byte of rank " + std::to_string(rank) + " in " + name_.path,
                      errno);
  }
  return Done{};
}

bool Segment::alive(int rank) const {
  if (!file_) return true;
  struct flock lock = byte_of(rank);
  // A system that cannot answer does not make the peer dead.
  return ::fcntl(file_.get(), F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

}  // namespace libhvd
