#include "checkpoint/snapshot.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include <sys/mman.h>

namespace libhvd::checkpoint {

Result<void> Snapshot::take(std::span<const Item> items, std::span<const Part> parts,
                            std::uint64_t begin, std::uint64_t end) {
  const std::uint64_t bytes = end - begin;
  if (bytes > memory_.size()) {
    memory_ = Mapping();  // frees the old memory first, so that there are never two
    void* const address =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED)
      return fail_errno("no memory for a copy of the state (" + std::to_string(bytes) + " bytes)",
                        errno);
    memory_ = Mapping(address, bytes);
    ::madvise(address, bytes, MADV_HUGEPAGE);  // a hint
  }
  std::uint64_t done = begin;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::uint64_t from = std::max(begin, parts[i].offset);
    const std::uint64_t to = std::min(end, parts[i].offset + parts[i].description.bytes);
    if (from >= to) continue;
    std::memset(memory_.data() + (done - begin), 0, from - done);  // the gap before the part
    std::memcpy(memory_.data() + (from - begin), items[i].data + (from - parts[i].offset),
                to - from);
    done = to;
  }
  if (done < end) std::memset(memory_.data() + (done - begin), 0, end - done);
  return {};
}

}  // namespace libhvd::checkpoint
