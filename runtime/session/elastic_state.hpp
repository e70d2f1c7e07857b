// The state of a training in a job that continues when ranks are lost, see hvd_state in
// hvd/elastic.h: blocks of the program's memory, and a copy of them.
//
// One thread at a time. The owner knows the number of commits.
#pragma once

#include "base/error.hpp"
#include "collective/communicator.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace libhvd {

class ElasticState {
 public:
  // Adds a block. Error: the name is empty or there already; there is a copy.
  Result<void> add(std::string name, std::byte* data, std::size_t bytes);

  // Copies the blocks. Throws std::bad_alloc, the first time only.
  void commit();
  // Copies the copy into the blocks. Error: there is none.
  Result<void> restore();

  // Gives the root's blocks to all ranks, and commits them. Returns the root's number of commits.
  // Collective. After an error the blocks are those of the copy. Error: HVD_ERROR_MISMATCH if the
  // ranks have different blocks; a rank has failed.
  Result<std::uint64_t> sync(Communicator& communicator, int root, std::uint64_t commits);

 private:
  struct Block {
    std::string name;
    std::byte* data;
    std::size_t bytes;
  };
  std::string describe() const;
  Result<void> agree(Communicator& communicator, bool has_copy) const;
  Result<void> receive(Communicator& communicator, int root, std::uint64_t& commits);

  std::vector<Block> blocks_;
  std::size_t bytes_ = 0;  // of all
  std::unique_ptr<std::byte[]> copy_;
};

}  // namespace libhvd
