#include "output/recent_output.hpp"

#include <algorithm>

namespace hvdrun {

void RecentOutput::begin(int ranks) {
  for (auto& rank : ranks_)
    for (auto& stream : rank.streams) stream.in_line = false;
  grow(ranks);
}

void RecentOutput::grow(int ranks) {
  const auto count = static_cast<std::size_t>(std::max(ranks, 1));
  share_ = std::clamp(kAllRanks / count, kLeastOfRank, kMostOfRank);
  if (ranks_.size() < count) ranks_.resize(count);
}

void RecentOutput::add(int rank, Stream stream, std::string_view bytes, OutputTime time) {
  if (rank < 0 || static_cast<std::size_t>(rank) >= ranks_.size() || bytes.empty()) return;
  auto& of = ranks_[static_cast<std::size_t>(rank)];
  auto& before = of.streams[stream == Stream::err ? 1 : 0];
  const bool is_cut = bytes.size() > share_;
  const bool begins_line = is_cut ? bytes[bytes.size() - share_ - 1] == '\n' : !before.in_line;
  const auto follows = is_cut ? 0 : before.last;
  before = {++last_, bytes.back() != '\n'};
  if (is_cut) bytes.remove_prefix(bytes.size() - share_);
  of.bytes += bytes.size();
  while (of.bytes > share_ && !of.chunks.empty()) {
    of.bytes -= of.chunks.front().bytes.size();
    of.chunks.pop_front();
  }
  of.chunks.push_back({last_, follows, rank, stream, time, begins_line, std::string(bytes)});
}

std::vector<const OutputChunk*> RecentOutput::after(std::uint64_t number, std::size_t most) const {
  std::vector<const OutputChunk*> chunks;
  for (const auto& rank : ranks_)
    for (auto chunk = rank.chunks.rbegin(); chunk != rank.chunks.rend() && chunk->number > number;
         ++chunk)
      chunks.push_back(&*chunk);
  std::ranges::sort(chunks, {}, &OutputChunk::number);
  std::size_t bytes = 0;
  const auto end = std::ranges::find_if(chunks, [&](const OutputChunk* chunk) {
    bytes += chunk->bytes.size();
    return bytes > most;
  });
  if (end != chunks.end()) chunks.erase(end == chunks.begin() ? end + 1 : end, chunks.end());
  return chunks;
}

}  // namespace hvdrun
