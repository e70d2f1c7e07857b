#include "transport/peer_memory.hpp"

#include "common/system.hpp"

#include <array>
#include <bit>
#include <utility>

#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

namespace libhvd {
namespace {

// Reads all of it, or returns false. The kernel may stop early.
bool read_all(std::uint32_t pid, std::uint64_t address, std::byte* to, std::size_t bytes) {
  while (bytes > 0) {
    const iovec local{to, bytes};
    const iovec remote{reinterpret_cast<void*>(address), bytes};
    const ssize_t done = ::process_vm_readv(static_cast<pid_t>(pid), &local, 1, &remote, 1, 0);
    if (done <= 0) return false;
    to += done;
    address += static_cast<std::uint64_t>(done);
    bytes -= static_cast<std::size_t>(done);
  }
  return true;
}

}  // namespace

PeerMemory::PeerMemory(std::shared_ptr<Segment> segment, int rank, int first_block)
    : segment_(std::move(segment)),
      own_proof_(segment_->block(first_block + rank).memory_proof),
      first_block_(first_block),
      proven_(static_cast<std::size_t>(segment_->size())) {
  std::array<std::uint8_t, sizeof number_> random{};
  // Without random bytes the number in the block stays 0, and no rank reads here.
  if (!common::fill_random(random)) return;
  number_ = std::bit_cast<std::uint64_t>(random);
  // Fails without Yama.
  ::prctl(PR_SET_PTRACER, static_cast<unsigned long>(::getppid()), 0UL, 0UL, 0UL);
  own_proof_.address = reinterpret_cast<std::uint64_t>(&number_);
  own_proof_.number = number_;
  own_proof_.pid = static_cast<std::uint32_t>(::getpid());
}

void PeerMemory::withdraw() {
  withdrawn_ = true;
  own_proof_ = {};
}

bool PeerMemory::read(int rank, std::uint64_t address, std::byte* to, std::size_t bytes) {
  if (withdrawn_ || !is_proven(rank)) return false;
  return read_all(segment_->block(first_block_ + rank).memory_proof.pid, address, to, bytes);
}

bool PeerMemory::is_proven(int rank) {
  const auto index = static_cast<std::size_t>(rank);
  if (!proven_[index]) {
    const MemoryProof& proof = segment_->block(first_block_ + rank).memory_proof;
    std::uint64_t number = 0;
    proven_[index] =
        proof.number != 0 &&
        read_all(proof.pid, proof.address, reinterpret_cast<std::byte*>(&number), sizeof number) &&
        number == proof.number;
  }
  return proven_[index];
}

}  // namespace libhvd
