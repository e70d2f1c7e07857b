// Reads memory of other ranks of this host where it is, with process_vm_readv(2): the kernel copies
// from process to process, so the data crosses between two cores once. Through an area of the
// segment it is copied twice.
//
// A pid may mean another process here, as in containers with pid namespaces of their own. So each
// rank publishes the address of a random number in its memory, and a rank reads only from a process
// that has this number there.
//
// The system may refuse to let one process read another's memory: a seccomp filter, another user,
// or Yama (ptrace_scope). Under Yama's scope 1 each rank allows it to the descendants of its parent
// process, which under hvdrun is the agent of all ranks of the host.
//
// One thread at a time.
#pragma once

#include "transport/segment.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace libhvd {

class PeerMemory {
 public:
  // Publishes this process's number in the rank's block. `first_block`: of the lane.
  PeerMemory(std::shared_ptr<Segment> segment, int rank, int first_block);
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  // Copies `bytes` bytes at `address` in the process of `rank`, which must have its PeerMemory.
  // Returns false if the memory cannot be read; a part of `to` may then be written.
  bool read(int rank, std::uint64_t address, std::byte* to, std::size_t bytes);

  // Removes this process's number, and makes all reads fail.
  void withdraw();
  bool withdrawn() const { return withdrawn_; }

 private:
  bool is_proven(int rank);

  std::shared_ptr<Segment> segment_;
  MemoryProof& own_proof_;
  int first_block_;
  std::uint64_t number_ = 0;  // other processes look for it
  std::vector<bool> proven_;  // by rank
  bool withdrawn_ = false;
};

}  // namespace libhvd
