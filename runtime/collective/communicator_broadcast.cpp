// Communicator::broadcast. It has three ways: a post for a few bytes on one host, areas of all
// ranks for more there, and the bridges between hosts.
#include "collective/arguments.hpp"
#include "collective/call.hpp"
#include "collective/communicator.hpp"
#include "collective/element.hpp"
#include "collective/output_copy.hpp"
#include "collective/staging.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

namespace libhvd {

Result<void> Communicator::broadcast(void* buffer, std::size_t count, hvd_type type, int root,
                                     const CallOptions& options) {
  const Call call = broadcast_call(buffer, count, type, root, size(), options);
  const std::size_t bytes = call.fault.empty() ? count * element_size(type) : 0;
  if (bytes <= segment()->layout().post_bytes() && is_post(call))
    return broadcast_post(call, bytes_of(buffer), bytes);
  const std::uint64_t own_address = rank() == root ? offer(call, buffer, bytes) : 0;
  HVD_CHECK(open_call(call, [&] {
    if (rank() != root || alone()) return;
    std::memcpy(own_inline_data(), &own_address, sizeof own_address);
    chunks_.stage(steps_.mine(), bytes_of(buffer), own_address == 0 ? bytes : 0, 0);
  }));
  if (alone()) return {};
  if (!on_one_host()) return broadcast_chunks(call, bytes_of(buffer), bytes);
  std::uint64_t address;
  std::memcpy(&address, inline_data(root), sizeof address);
  if (rank() == root) direct_.begin();
  HVD_CHECK(address != 0 ? broadcast_directly(call, address, bytes_of(buffer), bytes)
                         : broadcast_on_host(call, bytes_of(buffer), bytes, true));
  if (rank() == root) direct_.end();
  return {};
}

// Returns whether the call may be a post. All ranks that make the call come to the same answer.
bool Communicator::is_post(const Call& call) const {
  return steps_.may_post() && !alone() && !ordered_.negotiated && call.fault.empty() &&
         call.name_hash == 0 && call.shape.empty();
}

// A few bytes are beside the header, more are the data of the post.
Result<void> Communicator::broadcast_post(const Call& call, std::byte* buffer, std::size_t bytes) {
  current_ = nullptr;
  ++calls_;
  const CallHeader header = make_call_header(call);
  begun_ = {header, call.count};
  new (steps_.header().bytes) CallHeader(header);
  const bool sends = rank() == call.root;
  const bool beside = bytes <= kInlineBytes;
  if (sends && beside) copy_bytes(own_inline_data(), buffer, bytes);
  const std::size_t in_slot = sends && !beside ? bytes : 0;
  if (const auto failure = steps_.post(steps_.header(), {buffer, in_slot}))
    return peer_error(call, *failure);
  if (!sends) {
    current_ = &call;
    const auto failure = steps_.wait_for_post(call.root);
    current_ = nullptr;
    if (failure) return peer_error(call, *failure);
    const PostSlot* const theirs = steps_.find_post(call.root);
    if (theirs == nullptr || contents_of(theirs->header).call != header)
      return explain_post(call, header, std::array{call.root, rank()});
    copy_bytes(buffer,
               beside ? contents_of(theirs->header).data : steps_.post_data(call.root, bytes),
               bytes);
  }
  posts_.add(header);
  return {};
}

// The other ranks read at the root's address. If one of them cannot, all get the data in chunks.
Result<void> Communicator::broadcast_directly(const Call& call, std::uint64_t address,
                                              std::byte* buffer, std::size_t bytes) {
  const bool could_read = rank() == call.root || direct_.read(call.root, address, buffer, bytes);
  HVD_TRY(const bool all_could, end_direct_reads(call, could_read));
  return all_could ? Result<void>{} : broadcast_on_host(call, buffer, bytes, false);
}

// Broadcasts between hosts. With many ranks the areas are small, so the root uses the room of all
// ranks (StepBarrier::wide) and each step still carries much.
Result<void> Communicator::broadcast_chunks(const Call& call, std::byte* buffer,
                                            std::size_t bytes) {
  const bool sends = rank() == call.root;
  const OutputCopy copy(bytes, size());
  const std::size_t first = chunks_.length(bytes, 0);
  if (!sends) copy(buffer, steps_.theirs(call.root).input, first);
  const std::size_t most = std::min(kChunkBytes, steps_.wide().size());
  for (std::size_t begin = first; begin < bytes; begin += most) {
    const std::size_t now = std::min(most, bytes - begin);
    if (sends) {
      std::memcpy(steps_.wide().data(), buffer + begin, now);
      Used& used = steps_.mine().used;
      used.input = static_cast<std::uint32_t>(now);
      used.wide = 1;
    }
    HVD_CHECK(step(call));
    if (!sends) copy(buffer + begin, steps_.shown_wide().data(), now);
  }
  return {};
}

// The first chunk is in the area of the root, which has shown it with the call if `first_is_shown`.
// After the first chunk each step carries as much as the areas of all ranks hold, because no other
// rank writes into them. Waiting for each other costs more than copying.
Result<void> Communicator::broadcast_on_host(const Call& call, std::byte* buffer, std::size_t bytes,
                                             bool first_is_shown) {
  const bool sends = rank() == call.root;
  if (!first_is_shown) {
    if (sends) chunks_.stage(steps_.mine(), buffer, bytes, 0);
    HVD_CHECK(step(call));
  }
  const OutputCopy copy(bytes, size());
  const std::size_t stretch = 2 * chunks_.bytes * static_cast<std::size_t>(size());
  const auto show = [&](std::size_t begin) {
    const std::size_t end = std::min(bytes, begin + stretch);
    for (int rank = 0; begin < end; ++rank) {
      const Area area = steps_.next_of(rank);
      for (std::byte* place : {area.input, area.result}) {
        const std::size_t length = std::min(chunks_.bytes, end - begin);
        copy_bytes(place, buffer + begin, length);
        begin += length;
      }
    }
  };
  const auto take = [&](std::size_t begin) {
    const std::size_t end = std::min(bytes, begin + stretch);
    for (int rank = 0; begin < end; ++rank) {
      const Area area = steps_.theirs(rank);
      for (const std::byte* place : {area.input, area.result}) {
        const std::size_t length = std::min(chunks_.bytes, end - begin);
        copy(buffer + begin, place, length);
        begin += length;
      }
    }
  };
  if (!sends) copy(buffer, steps_.theirs(call.root).input, chunks_.length(bytes, 0));
  for (std::size_t begin = chunks_.bytes; begin < bytes; begin += stretch) {
    if (sends) show(begin);
    HVD_CHECK(step(call));
    steps_.note_results();
    if (!sends) take(begin);
  }
  return {};
}

}  // namespace libhvd
