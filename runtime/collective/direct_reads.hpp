// Decides whether a rank lets the others read its data where it is (transport/peer_memory.hpp), or
// shows it in chunks. Each rank decides for itself, by what took less time lately, and publishes an
// address with its call. The others read there; then all meet, and learn whether all could read. If
// one could not, the data follows in chunks, and no rank offers its memory again.
//
// Used by one thread at a time, that of the call.
#pragma once

#include "collective/call.hpp"
#include "collective/quicker_way.hpp"
#include "transport/peer_memory.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace libhvd {

class DirectReads {
 public:
  DirectReads(std::shared_ptr<Segment> segment, int rank, int first_block)
      : memory_(std::move(segment), rank, first_block) {}

  // Begins a call in which the others read `bytes` bytes at `data`. Returns the address to publish;
  // 0 means that this rank shows the data in chunks.
  std::uint64_t offer(Collective kind, const void* data, std::size_t bytes);
  // Record when the data of that call begins to move, and when it has arrived.
  void begin();
  void end();

  // Copies from the memory that `rank` has offered. Returns false if it cannot be read.
  bool read(int rank, std::uint64_t address, std::byte* to, std::size_t bytes) {
    return bytes == 0 || memory_.read(rank, address, to, bytes);
  }
  // Makes this rank offer its memory no more. All ranks call it after the same call.
  void stop() { offers_ = false; }
  // Makes this rank also read nothing, and makes reading its memory fail. Other ranks need not do
  // the same: their first offer to this rank, or its first to them, fails and stops all ranks'.
  void refuse() {
    stop();
    memory_.withdraw();
  }
  bool refused() const { return memory_.withdrawn(); }

 private:
  // Less is copied quicker than the kernel is called.
  static constexpr std::size_t kLeastBytes = 32 * 1024;

  // The running call. Without a `choice` nothing is measured.
  struct Running {
    QuickerWay* choice = nullptr;
    std::size_t bytes = 0;
    int way = 0;
    std::uint64_t begin_ns = 0;
  };

  PeerMemory memory_;
  bool offers_ = true;
  std::array<QuickerWay, 3> choices_;  // of broadcast, allgather and alltoall
  Running running_;
};

}  // namespace libhvd
