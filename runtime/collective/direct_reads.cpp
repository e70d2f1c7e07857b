#include "collective/direct_reads.hpp"

#include "common/clock.hpp"

namespace libhvd {
namespace {

constexpr int kDirect = 0;

std::size_t index_of(Collective kind) {
  return kind == Collective::broadcast ? 0 : kind == Collective::allgather ? 1 : 2;
}

}  // namespace

std::uint64_t DirectReads::offer(Collective kind, const void* data, std::size_t bytes) {
  running_ = {};
  if (!offers_ || bytes < kLeastBytes) return 0;
  QuickerWay& choice = choices_[index_of(kind)];
  running_ = {&choice, bytes, choice.choose(bytes), 0};
  return running_.way == kDirect ? reinterpret_cast<std::uint64_t>(data) : 0;
}

void DirectReads::begin() {
  if (running_.choice != nullptr) running_.begin_ns = common::monotonic_ns();
}

void DirectReads::end() {
  if (running_.choice == nullptr) return;
  running_.choice->record(running_.bytes, running_.way, common::monotonic_ns() - running_.begin_ns);
  running_ = {};
}

}  // namespace libhvd
