// The shared memory through which the ranks of NCCL's double exchange data, named by the unique id.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace nccl_double {

inline constexpr int kMostRanks = 16;
inline constexpr std::size_t kMailboxBytes = 8u << 20;  // per rank and collective
inline constexpr std::size_t kParcelBytes = 1u << 20;   // per send

struct Shared {
  std::atomic<std::int32_t> joined;
  std::atomic<std::int32_t> failed;  // 1 + the rank that failed to start
  std::atomic<std::uint64_t> arrived;
  std::atomic<std::int32_t> gpu[kMostRanks];  // a hash of host and device; 0: not joined yet
  // The numbers of parcels that were sent and received, by sender and receiver.
  std::atomic<std::uint64_t> sent[kMostRanks][kMostRanks];
  std::atomic<std::uint64_t> taken[kMostRanks][kMostRanks];
};

class Meeting {
 public:
  // Opens the file in HVD_SHM_DIR. Returns null if that fails.
  static std::shared_ptr<Meeting> open(const std::string& name, int rank, int size);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  Shared& shared() const { return *static_cast<Shared*>(memory_); }
  std::byte* mailbox(int rank) const;

  // Waits for all ranks, as a barrier. Returns false if this rank has aborted.
  bool barrier();
  // Sends one parcel when the previous one was received. Returns false if this rank has aborted.
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
