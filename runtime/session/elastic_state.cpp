#include "session/elastic_state.hpp"

#include "common/sha256.hpp"
#include "session/process_sets.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <sstream>
#include <utility>

namespace libhvd {
namespace {

constexpr const char* kSyncWhat = "hvd_state_sync";

// Returns the first line of `own` that is not in the same place of `other`; "nothing" at the end.
std::string first_difference(const std::string& own, const std::string& other) {
  std::istringstream own_lines(own);
  std::istringstream other_lines(other);
  std::string line;
  std::string other_line;
  while (std::getline(own_lines, line)) {
    if (!std::getline(other_lines, other_line) || line != other_line) return line;
  }
  return "nothing more";
}

}  // namespace

Result<void> ElasticState::add(std::string name, std::byte* data, std::size_t bytes) {
  const bool known = std::any_of(blocks_.begin(), blocks_.end(),
                                 [&](const Block& block) { return block.name == name; });
  if (name.empty()) return fail(HVD_ERROR_INVALID_ARGUMENT, "a block needs a name");
  if (known) return fail(HVD_ERROR_INVALID_ARGUMENT, "there is a block \"" + name + "\" already");
  if (copy_)
    return fail(HVD_ERROR_INVALID_ARGUMENT,
                "block \"" + name + "\" comes after the first commit or synchronisation");
  blocks_.push_back({std::move(name), data, bytes});
  bytes_ += bytes;
  return {};
}

void ElasticState::commit() {
  if (!copy_) copy_ = std::make_unique_for_overwrite<std::byte[]>(std::max<std::size_t>(bytes_, 1));
  std::byte* to = copy_.get();
  for (const Block& block : blocks_) {
    if (block.bytes > 0) std::memcpy(to, block.data, block.bytes);
    to += block.bytes;
  }
}

Result<void> ElasticState::restore() {
  if (!copy_) return fail(HVD_ERROR_INVALID_ARGUMENT, "nothing was committed yet");
  const std::byte* from = copy_.get();
  for (const Block& block : blocks_) {
    if (block.bytes > 0) std::memcpy(block.data, from, block.bytes);
    from += block.bytes;
  }
  return {};
}

// Returns a line for each block.
std::string ElasticState::describe() const {
  std::string text;
  for (const Block& block : blocks_)
    text += "block \"" + block.name + "\" of " + std::to_string(block.bytes) + " bytes\n";
  return text;
}

// Checks that all ranks have the same blocks, and memory for the copy.
Result<void> ElasticState::agree(Communicator& communicator, bool has_copy) const {
  const std::string text = describe();
  const Digest digest = sha256({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  std::string own(digest.begin(), digest.end());
  own += has_copy ? '+' : '-';
  const CallOptions options{.name = kSyncWhat};
  HVD_TRY(const auto all, exchange_texts(communicator, own, options));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].back() == '-')
      return fail(HVD_ERROR_SYSTEM, "rank " + std::to_string(rank) + " has no memory for the copy");
  }
  if (std::all_of(all.begin(), all.end(), [&](const std::string& one) { return one == all[0]; }))
    return {};
  HVD_TRY(const auto texts, exchange_texts(communicator, text, options));
  const auto other = std::find_if(texts.begin(), texts.end(),
                                  [&](const std::string& one) { return one != texts[0]; });
  return fail(HVD_ERROR_MISMATCH, "the states have different blocks: there is " +
                                      first_difference(texts[0], *other) + " on rank 0, and " +
                                      first_difference(*other, texts[0]) + " on rank " +
                                      std::to_string(other - texts.begin()));
}

Result<void> ElasticState::receive(Communicator& communicator, int root, std::uint64_t& commits) {
  HVD_CHECK(communicator.broadcast(&commits, 1, HVD_INT64, root, {.name = kSyncWhat}));
  for (const Block& block : blocks_) {
    if (block.bytes == 0) continue;
    HVD_CHECK(communicator.broadcast(block.data, block.bytes, HVD_UINT8, root,
                                     {.name = block.name.c_str()}));
  }
  return {};
}

Result<std::uint64_t> ElasticState::sync(Communicator& communicator, int root,
                                         std::uint64_t commits) {
  if (!copy_) {
    try {
      commit();
    } catch (const std::bad_alloc&) {
      HVD_CHECK(agree(communicator, false));
    }
  }
  HVD_CHECK(agree(communicator, true));
  const Result<void> received = receive(communicator, root, commits);
  if (!received.ok()) {
    HVD_CHECK(restore());
    return received.error();
  }
  commit();
  return commits;
}

}  // namespace libhvd
