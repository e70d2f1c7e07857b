#include "nccl_meeting.hpp"

#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace nccl_double {
namespace {

constexpr std::size_t kHeaderBytes = 8192;
constexpr std::size_t kRankBytes = kMailboxBytes + kMostRanks * kParcelBytes;
static_assert(sizeof(Shared) <= kHeaderBytes);

}  // namespace

std::shared_ptr<Meeting> Meeting::open(const std::string& name, int rank, int size) {
  const char* const folder = std::getenv("HVD_SHM_DIR");
  const std::string path = std::string(folder == nullptr ? "/dev/shm" : folder) + '/' + name;
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return nullptr;
  const std::size_t bytes = kHeaderBytes + static_cast<std::size_t>(size) * kRankBytes;
  void* memory = MAP_FAILED;
  if (::ftruncate(file, static_cast<off_t>(bytes)) == 0)
    memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (memory == MAP_FAILED) return nullptr;
  return std::shared_ptr<Meeting>(new Meeting(memory, bytes, rank, size));
}

Meeting::~Meeting() {
  ::munmap(memory_, bytes_);
}

std::byte* Meeting::mailbox(int of_rank) const {
  return static_cast<std::byte*>(memory_) + kHeaderBytes +
         static_cast<std::size_t>(of_rank) * kRankBytes;
}

std::byte* Meeting::parcel(int from, int to) const {
  return mailbox(from) + kMailboxBytes + static_cast<std::size_t>(to) * kParcelBytes;
}

bool Meeting::wait_until(const std::function<bool()>& come) const {
  while (!come()) {
    if (aborted()) return false;
    ::usleep(50);
  }
  return true;
}

bool Meeting::barrier() {
  const std::uint64_t all = ++barriers_ * static_cast<std::uint64_t>(size);
  shared().arrived.fetch_add(1);
  return wait_until([&] { return shared().arrived.load() >= all; });
}

bool Meeting::send(int peer, const std::byte* bytes, std::size_t count) {
  if (count > kParcelBytes) std::abort();  // the test's data is too large
  auto& sent = shared().sent[rank][peer];
  auto& taken = shared().taken[rank][peer];
  if (!wait_until([&] { return taken.load() == sent.load(); })) return false;
  std::memcpy(parcel(rank, peer), bytes, count);
  sent.fetch_add(1);
  return true;
}

bool Meeting::receive(int peer, std::byte* bytes, std::size_t count) {
  auto& sent = shared().sent[peer][rank];
  auto& taken = shared().taken[peer][rank];
  if (!wait_until([&] { return taken.load() < sent.load(); })) return false;
  std::memcpy(bytes, parcel(peer, rank), count);
  taken.fetch_add(1);
  return true;
}

}  // namespace nccl_double
