#include "transport/segment.hpp"

#include "base/process_environment.hpp"
#include "common/clock.hpp"
#include "common/fd.hpp"
#include "common/mapping.hpp"
#include "common/text.hpp"
#include "transport/doorbell.hpp"
#include "transport/futex.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace libhvd {
namespace {

constexpr std::uint64_t kMagic = 0x314d485344564844u;  // "DHVDSHM1" in memory
constexpr std::uint32_t kVersion = 10;

// Marks a range that is in the file without a name.
constexpr std::uint64_t kInMemory = std::uint64_t{1} << 62;

std::string link_to_memory(const SegmentName& name) {
  return name.path + ".memory";
}

// Initialises a new segment. New memory is zero, which is the first value of all other fields.
void begin_lifetime(const Mapping& mapping, const SegmentLayout& layout, const Nonce& nonce) {
  const SegmentShape& shape = layout.shape();
  auto* header = new (mapping.data()) SegmentHeader{};
  header->size = static_cast<std::uint32_t>(shape.ranks);
  header->lanes = static_cast<std::uint32_t>(shape.lanes);
  header->chunk = static_cast<std::uint32_t>(shape.chunk);
  header->has_results = shape.has_results ? 1 : 0;
  header->nonce = nonce;
  header->end.store(layout.bytes(), std::memory_order_relaxed);
  // Its beginning has the nonce, if it does not have the blocks.
  header->memory_end.store(layout.bytes(), std::memory_order_relaxed);
  header->version = kVersion;
  header->magic = kMagic;
  for (int rank = 0; rank < shape.ranks; ++rank)
    reinterpret_cast<RankBlock*>(mapping.data() + layout.block(rank))->number =
        static_cast<std::uint32_t>(rank);
}

// Reads the shape that the creator has written. Returns nullopt if the file is not the segment of
// this name.
std::optional<SegmentShape> read_shape(const Mapping& mapping, const SegmentName& name, int ranks) {
  const auto* header = reinterpret_cast<const SegmentHeader*>(mapping.data());
  const auto lanes = static_cast<int>(header->lanes);
  if (header->magic != kMagic || header->version != kVersion || header->nonce != name.nonce ||
      header->size != static_cast<std::uint32_t>(ranks) || lanes < 1 || lanes > kLanes ||
      header->chunk < kLeastChunkBytes || header->chunk > kChunkBytes ||
      header->chunk % kCacheLine != 0) {
    return std::nullopt;
  }
  SegmentShape shape(ranks, lanes);
  shape.chunk = header->chunk;
  shape.has_results = header->has_results != 0;
  return shape;
}

Error no_room(const std::string& where, std::size_t bytes, const std::string& who,
              int errno_value) {
  Error error =
      fail_errno("the shared memory" + (where.empty() ? "" : " in " + where) + " has no room for " +
                     std::to_string((bytes + 1023) / 1024) + " KiB, which " + who + " need",
                 errno_value);
  error.message +=
      ". Free some, make it larger (in a container: --shm-size), or name another directory of "
      "memory in HVD_SHM_DIR";
  return error;
}

// Opens the file with the blocks that the directory had no room for.
Result<MemoryFile> open_blocks_in_memory(const SegmentName& name, int ranks) {
  auto memory = MemoryFile::open(link_to_memory(name));
  if (memory.ok()) return memory;
  const std::string directory = name.path.substr(0, name.path.rfind('/'));
  return with_context(memory.error().message, no_room(directory, SegmentLayout(ranks).bytes(),
                                                      std::to_string(ranks) + " ranks", ENOSPC));
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

Result<SegmentFile> SegmentFile::create(const std::string& directory, const std::string& job_id) {
  SegmentName name;
  HVD_TRY(name.nonce, random_bytes<sizeof(Nonce)>());
  name.path = directory + "/hvd-" + job_id + "-" + to_hex(name.nonce);
  Fd file(::open(name.path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) {
    const int why = errno;
    Error error = fail_errno("cannot create shared memory as " + name.path, why);
    if (why == ENOENT)
      error.message +=
          ". A container must show the /dev/shm of its host (--ipc host, or -v /dev/shm:/dev/shm)";
    return error;
  }
  return SegmentFile(std::move(file), std::move(name), true);
}

SegmentFile::SegmentFile(SegmentFile&& other) noexcept
    : file_(std::move(other.file_)),
      name_(std::move(other.name_)),
      named_(std::exchange(other.named_, false)) {}

SegmentFile& SegmentFile::operator=(SegmentFile&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(name_, other.name_);
  std::swap(named_, other.named_);
  return *this;
}

void SegmentFile::remove_name() {
  if (named_) ::unlink(name_.path.c_str());
  named_ = false;
}

Result<Segment> Segment::anonymous(const SegmentShape& shape) {
  const SegmentLayout layout(shape);
  HVD_TRY(MemoryFile memory, MemoryFile::create());
  if (::ftruncate(memory.get(), static_cast<off_t>(layout.bytes())) != 0)
    return fail_errno("cannot make shared memory", errno);
  HVD_TRY(Mapping mapping, map_shared(memory.get(), 0, layout.bytes()));
  begin_lifetime(mapping, layout, Nonce{});
  return Segment(SegmentFile(), std::move(memory), layout, std::move(mapping));
}

Result<Segment> Segment::create(SegmentFile file, const SegmentShape& shape) {
  // Not ftruncate: a full tmpfs would be noticed only by a SIGBUS in the middle of training.
  const SegmentLayout layout(shape);
  const std::size_t bytes = layout.bytes();
  const int refused = reserve_in_file(file.file_.get(), 0, bytes);
  auto memory = MemoryFile::create(link_to_memory(file.name()));
  if (refused != 0 &&
      (!memory.ok() || memory->reserve(0, bytes) != 0 || ::ftruncate(file.file_.get(), 0) != 0)) {
    return no_room(file.directory(), bytes, std::to_string(shape.ranks) + " ranks", refused);
  }
  HVD_TRY(Mapping mapping, map_shared(refused == 0 ? file.file_.get() : memory->get(), 0, bytes));
  begin_lifetime(mapping, layout, file.name().nonce);
  Segment segment(std::move(file), memory.ok() ? std::move(*memory) : MemoryFile(), layout,
                  std::move(mapping));
  if (refused == 0) segment.prove_memory();
  return segment;
}

// Writes the nonce to the beginning of the file without a name, as it is in the header of the
// blocks.
void Segment::prove_memory() {
  const Nonce& nonce = name().nonce;
  const auto bytes = static_cast<ssize_t>(nonce.size());
  if (memory_ && ::pwrite(memory_.get(), nonce.data(), nonce.size(), 0) == bytes) return;
  header().memory_is_private.store(1, std::memory_order_relaxed);
}

// Finds the file without a name, after this rank has opened the first one. If a rank cannot find
// it, no rank uses it.
void Segment::find_memory() {
  Nonce nonce{};
  auto memory = MemoryFile::open(link_to_memory(name()));
  const auto bytes = static_cast<ssize_t>(nonce.size());
  if (memory.ok() && ::pread(memory->get(), nonce.data(), nonce.size(), 0) == bytes &&
      nonce == name().nonce) {
    memory_ = std::move(*memory);
  } else {
    header().memory_is_private.store(1, std::memory_order_relaxed);
  }
}

Result<Segment> Segment::create(const std::string& directory, const std::string& job_id,
                                const SegmentShape& shape) {
  HVD_TRY(SegmentFile file, SegmentFile::create(directory, job_id));
  return create(std::move(file), shape);
}

Result<Segment> Segment::open(const SegmentName& name, int ranks) {
  Fd file(::open(name.path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!file) {
    const int why = errno;
    Error error = fail_errno("cannot open " + name.path, why);
    if (why == ENOENT || why == ENOTDIR) error.status = HVD_ERROR_UNSUPPORTED;
    return error;
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return fail_errno("cannot stat " + name.path, errno);
  MemoryFile memory;
  const bool is_empty = status.st_size == 0;
  if (is_empty) {
    HVD_TRY(memory, open_blocks_in_memory(name, ranks));
    if (::fstat(memory.get(), &status) != 0) return fail_errno("cannot stat " + name.path, errno);
  }
  const int blocks = is_empty ? memory.get() : file.get();
  const auto size = static_cast<std::size_t>(status.st_size);
  const auto not_ours = [&](const std::string& why) {
    return fail(HVD_ERROR_UNSUPPORTED, name.path + " is not the job's segment" + why);
  };
  if (size < sizeof(SegmentHeader)) return not_ours(": it has " + std::to_string(size) + " bytes");
  std::optional<SegmentShape> shape;
  {
    HVD_TRY(const Mapping header, map_shared(blocks, 0, sizeof(SegmentHeader)));
    shape = read_shape(header, name, ranks);
  }
  if (!shape) return not_ours("");
  const SegmentLayout layout(*shape);
  if (size < layout.bytes())
    return not_ours(": its size is " + std::to_string(size) + ", not " +
                    std::to_string(layout.bytes()));
  HVD_TRY(Mapping mapping, map_shared(blocks, 0, layout.bytes()));
  Segment segment(SegmentFile(std::move(file), name, false), std::move(memory), layout,
                  std::move(mapping));
  if (!is_empty) segment.find_memory();
  if (segment.header().bridge != 0) {
    HVD_TRY(segment.doorbell_, Doorbell::open(segment.doorbell_path()));
  }
  return segment;
}

Segment::Segment(Segment&& other) noexcept
    : file_(std::move(other.file_)),
      memory_(std::move(other.memory_)),
      layout_(other.layout_),
      mapping_(std::move(other.mapping_)),
      staging_(std::move(other.staging_)),
      doorbell_(std::move(other.doorbell_)),
      bell_named_(std::exchange(other.bell_named_, false)),
      job_(std::move(other.job_)),
      job_ranks_(std::move(other.job_ranks_)) {}

Segment::~Segment() {
  remove_name();
}

Result<std::uint64_t> Segment::reserve_range(std::size_t bytes) {
  const std::size_t size = whole_pages(bytes, layout_.page());
  int refused = 0;
  if (file_.file_) {
    const std::uint64_t begin = header().end.fetch_add(size, std::memory_order_relaxed);
    // Not ftruncate, for the reason in create().
    refused = reserve_in_file(file_.file_.get(), begin, size);
    if (refused == 0) return begin;
    release_range(begin, size);  // it may have got a part
  }
  if (memory_ && !memory_is_private()) {
    const std::uint64_t begin = header().memory_end.fetch_add(size, std::memory_order_relaxed);
    const int refused_here = memory_.reserve(begin, size);
    if (refused_here == 0) return kInMemory | begin;
    release_range(kInMemory | begin, size);
    if (refused == 0) refused = refused_here;
  }
  return no_room(file_.directory(), size, "the buffers of a rank", refused);
}

Segment::FileRange Segment::file_range(std::uint64_t range) const {
  if ((range & kInMemory) != 0) return {memory_.get(), range & ~kInMemory};
  return {file_.file_.get(), range};
}

Result<Mapping> Segment::map_range(std::uint64_t range, std::size_t bytes) const {
  const FileRange place = file_range(range);
  return map_shared(place.file, place.begin, whole_pages(bytes, layout_.page()));
}

void Segment::release_range(std::uint64_t range, std::size_t bytes) {
  const FileRange place = file_range(range);
  libhvd::release_range(place.file, place.begin, whole_pages(bytes, layout_.page()));
}

void Segment::remove_name() {
  file_.remove_name();
  memory_.remove_link();
  if (bell_named_) ::unlink(doorbell_path().c_str());
  bell_named_ = false;
}

Result<void> Segment::announce(int rank) {
  block(rank).pid.store(static_cast<std::uint32_t>(::getpid()), std::memory_order_relaxed);
  cpu_set_t own;
  if (::sched_getaffinity(0, sizeof own, &own) == 0) {
    for (std::size_t cpu = 0; cpu < kMostProcessors; ++cpu) {
      if (CPU_ISSET(cpu, &own))
        header().processors[cpu / 64].fetch_or(std::uint64_t{1} << (cpu % 64),
                                               std::memory_order_relaxed);
    }
  }
  if (!file_.file_) return {};
  struct flock lock = byte_of(rank);
  if (::fcntl(file_.file_.get(), F_SETLK, &lock) != 0) {
    return fail_errno("cannot lock the byte of rank " + std::to_string(rank) + " in " + name().path,
                      errno);
  }
  return {};
}

int Segment::ranks_per_processor() const {
  int processors = 0;
  for (const auto& word : header().processors)
    processors += std::popcount(word.load(std::memory_order_relaxed));
  int ranks = 0;
  for (int rank = 0; rank < size(); ++rank) ranks += block(rank).host == header().host;
  return processors > 0 ? (ranks + processors - 1) / processors : 1;
}

Result<void> Segment::add_bridge(int rank) {
  if (file_.file_) {
    HVD_TRY(doorbell_, Doorbell::create(doorbell_path()));
    bell_named_ = true;
  } else {
    HVD_TRY(doorbell_, Doorbell::inside());
  }
  header().bridge = static_cast<std::uint32_t>(rank) + 1;
  return {};
}

Result<void> Segment::add_staging(std::size_t bytes) {
  const std::size_t all = bytes * static_cast<std::size_t>(lanes());
  HVD_TRY(const std::uint64_t begin, reserve_range(all));
  header().staging = begin;
  header().staging_bytes = all;
  return map_staging();
}

Result<void> Segment::map_staging() {
  if (header().staging == 0) return {};
  HVD_TRY(staging_, map_range(header().staging, header().staging_bytes));
  return {};
}

std::span<std::byte> Segment::staging(int lane) const {
  if (header().staging == 0) return {};
  const std::size_t bytes = header().staging_bytes / static_cast<std::size_t>(lanes());
  return {staging_.data() + static_cast<std::size_t>(lane) * bytes, bytes};
}

// Writes the pids too. Ranks of this host write their own (announce), perhaps at this moment, but
// the value is the same.
void Segment::set_places(const std::vector<RankLocation>& places, int own_host) {
  header().host = static_cast<std::uint32_t>(own_host);
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    RankBlock& entry = block(static_cast<int>(rank));
    entry.host = static_cast<std::uint32_t>(places[rank].host);
    entry.pid.store(places[rank].pid, std::memory_order_relaxed);
    copy_text(entry.host_name, places[rank].host_name);
  }
}

void Segment::set_numbers(const std::vector<int>& numbers) {
  for (std::size_t rank = 0; rank < numbers.size(); ++rank)
    block(static_cast<int>(rank)).number = static_cast<std::uint32_t>(numbers[rank]);
}

bool Segment::alive(int rank) const {
  if (!file_.file_ || block(rank).host != header().host) return true;
  struct flock lock = byte_of(rank);
  // If the system cannot answer, the peer is taken to be alive.
  return ::fcntl(file_.file_.get(), F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

// Uses sequential consistency towards ranks that are about to sleep: either the sleeper sees what
// was stored here, or this thread sees the sleeper.
void Segment::publish(int block_number, std::uint32_t step) {
  RankBlock& entry = block(block_number);
  entry.areas[step % 2].step.store(step, std::memory_order_release);
  entry.arrived.store(step, std::memory_order_seq_cst);
  if (entry.sleepers.load(std::memory_order_seq_cst) > 0) futex_wake_all(entry.arrived);
  if (block_number >= blocks() - size()) wake();
  ring();
}

void Segment::publish_post(int block_number, std::uint32_t step) {
  RankBlock& entry = block(block_number);
  post(block_number, step).step.store(step, std::memory_order_release);
  entry.arrived.store(step, std::memory_order_seq_cst);
  if (entry.sleepers.load(std::memory_order_seq_cst) > 0) futex_wake_all(entry.arrived);
}

void Segment::publish_on_host(int block_number, std::uint32_t step) {
  RankBlock& entry = block(block_number);
  entry.arrived_on_host.store(step, std::memory_order_seq_cst);
  if (entry.sleepers_on_host.load(std::memory_order_seq_cst) > 0)
    futex_wake_all(entry.arrived_on_host);
}

// As in publish(): either this thread sees what was done before a wake(), or wake() sees it in
// `idle`.
void Segment::wait_idle(const std::function<bool()>& ready, long most_ns) {
  header().idle.fetch_add(1, std::memory_order_seq_cst);
  const std::uint32_t before = header().woken.load(std::memory_order_seq_cst);
  if (!ready()) futex_wait(header().woken, before, most_ns);
  header().idle.fetch_sub(1, std::memory_order_seq_cst);
}

void Segment::wake() {
  if (header().idle.load(std::memory_order_seq_cst) == 0) return;
  header().woken.fetch_add(1, std::memory_order_seq_cst);
  futex_wake_all(header().woken);
}

void Segment::set_left(int rank) {
  block(rank).left.store(1, std::memory_order_seq_cst);
  for (int lane = 0; lane < lanes(); ++lane) {
    futex_wake_all(block(lane * size() + rank).arrived);
    futex_wake_all(block(lane * size() + rank).arrived_on_host);
  }
  ring();
}

void Segment::set_job(std::shared_ptr<Segment> job, std::vector<int> ranks) {
  job_ = std::move(job);
  job_ranks_ = std::move(ranks);
}

void Segment::set_failure(FailureKind kind, int rank) {
  if (job_ && kind == FailureKind::died)
    job_->set_failure(kind, job_ranks_[static_cast<std::size_t>(rank)]);
  std::uint64_t none = 0;
  if (!header().failure.compare_exchange_strong(none, pack_failure(kind, rank),
                                                std::memory_order_seq_cst)) {
    return;
  }
  for (int number = 0; number < blocks(); ++number) {
    futex_wake_all(block(number).arrived);
    futex_wake_all(block(number).arrived_on_host);
  }
  wake();
  ring();
}

void Segment::set_failure_sent() {
  header().failure_is_sent.store(1, std::memory_order_seq_cst);
  futex_wake_all(header().failure_is_sent);
}

void Segment::wait_until_failure_is_sent(int rank, std::uint64_t most_ns) {
  if (job_) job_->wait_until_failure_is_sent(job_ranks_[static_cast<std::size_t>(rank)], most_ns);
  if (!failed() || bridge() != rank) return;
  const std::uint64_t end = monotonic_ns() + most_ns;
  auto& sent = header().failure_is_sent;
  for (std::uint64_t now = monotonic_ns(); now < end && sent.load(std::memory_order_seq_cst) == 0;
       now = monotonic_ns()) {
    futex_wait(sent, 0, static_cast<long>(end - now));
  }
}

void Segment::ring() {
  if (header().bridge_sleeps.load(std::memory_order_seq_cst) != 0) doorbell_.ring();
}

std::optional<Failure> Segment::failure() const {
  const auto packed = unpack_failure(header().failure.load(std::memory_order_acquire), size());
  if (!packed) return std::nullopt;
  const RankBlock& entry = block(packed->rank);
  std::vector<int> beside = ranks_on(static_cast<int>(entry.host));
  for (int& rank : beside) rank = number(rank);
  return Failure{packed->kind, number(packed->rank), entry.pid.load(std::memory_order_relaxed),
                 std::string(field_text(entry.host_name)), beside};
}

std::string Segment::describe(const Failure& failure) const {
  if (job_) return job_->describe(failure);
  const auto explained = explain_ ? explain_(failure) : std::nullopt;
  return explained ? *explained : describe_failure(failure);
}

std::optional<int> Segment::bridge() const {
  if (!has_bridge()) return std::nullopt;
  return static_cast<int>(header().bridge) - 1;
}

std::vector<int> Segment::ranks_on(int host) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank) {
    if (block(rank).host == static_cast<std::uint32_t>(host)) ranks.push_back(rank);
  }
  return ranks;
}

std::vector<int> Segment::hosts() const {
  std::vector<int> hosts;
  for (int rank = 0; rank < size(); ++rank) hosts.push_back(static_cast<int>(block(rank).host));
  return hosts;
}

}  // namespace libhvd
