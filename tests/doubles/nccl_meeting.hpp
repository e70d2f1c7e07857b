// Where the ranks of NCCL's double meet: a file in shared memory, named by the unique id.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace nccl_double {

inline constexpr int kMostRanks = 16;
inline constexpr std::size_t kMailboxBytes = 8u << 20;  // what a rank can show at a time
inline constexpr std::size_t kParcelBytes = 1u << 20;   // what it can send to one other

struct Shared {
  std::atomic<std::int32_t> joined;
  std::atomic<std::int32_t> failed;  // 1 + the rank whose start has failed
  std::atomic<std::uint64_t> arrived;
  std::atomic<std::int32_t> gpu[kMostRanks];  // of host and device; 0: not there yet
  // How many parcels were put there and taken, by sender and receiver.
  std::atomic<std::uint64_t> sent[kMostRanks][kMostRanks];
  std::atomic<std::uint64_t> taken[kMostRanks][kMostRanks];
};

class Meeting {
 public:
  // In HVD_SHM_DIR. Null: the file cannot be had.
  static std::shared_ptr<Meeting> open(const std::string& name, int rank, int size);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  Shared& shared() const { return *static_cast<Shared*>(memory_); }
  std::byte* mailbox(int rank) const;

  // Waits until all ranks are here, as often as each of them has been. False: this rank has
  // aborted.
  bool barrier();
  // Hands one parcel over, once the one before was taken; the same.
  bool send(int peer, const std::byte* bytes, std::size_t count);
  bool receive(int peer, std::byte* bytes, std::size_t count);

  void abort() { aborted_.store(true); }
  bool aborted() const { return aborted_.load(); }

  const int rank;
  const int size;

 private:
  Meeting(void* memory, std::size_t bytes, int own_rank, int own_size)
      : rank(own_rank), size(own_size), memory_(memory), bytes_(bytes) {}

  std::byte* parcel(int from, int to) const;
  bool wait_until(const std::function<bool()>& come) const;

  void* memory_;
  std::size_t bytes_;
  std::uint64_t barriers_ = 0;
  std::atomic<bool> aborted_{false};
};

}  // namespace nccl_double
