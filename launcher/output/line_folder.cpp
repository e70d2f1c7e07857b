#include "output/line_folder.hpp"

#include "model/traceback.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

namespace hvdrun {

namespace {

constexpr std::size_t kBits = 64;
constexpr int kMostSteps = 16;  // of a search among groups with one hash
// A longer list of ranks is cut: "[0,2,5,… 37 ranks]".
constexpr std::size_t kLongestList = 40;

// Returns the ranks as "0-2,5".
std::string list_of(const std::vector<std::uint64_t>& bits, std::size_t count) {
  const auto has = [&](std::size_t rank) {
    return rank / kBits < bits.size() && (bits[rank / kBits] >> rank % kBits & 1) != 0;
  };
  std::string text;
  for (std::size_t rank = 0; rank < bits.size() * kBits; ++rank) {
    if (!has(rank)) continue;
    std::size_t last = rank;
    while (has(last + 1)) ++last;
    if (text.size() > kLongestList) return text + ",… " + std::to_string(count) + " ranks";
    if (!text.empty()) text += ',';
    text += std::to_string(rank);
    if (last > rank) text += "-" + std::to_string(last);
    rank = last;
  }
  return text;
}

}  // namespace

void LineFolder::begin(std::vector<int> streams) {
  flush();
  streams_ = std::move(streams);
  next_.assign(streams_.size(), first_);
  joined_.assign(streams_.size(), first_);
  own_.assign(streams_.size(), {});
  printing_ = static_cast<std::size_t>(
      std::count_if(streams_.begin(), streams_.end(), [](int open) { return open > 0; }));
}

void LineFolder::add_rank(int streams) {
  flush();
  streams_.push_back(streams);
  next_.push_back(first_);
  joined_.push_back(first_);
  own_.emplace_back();
  printing_ += streams > 0 ? 1 : 0;
}

void LineFolder::add(int rank, Stream stream, std::string_view lines, OutputTime time, Steady now) {
  const auto index = static_cast<std::size_t>(rank);
  while (!lines.empty()) {
    const auto line = lines.substr(0, lines.find('\n') + 1);
    lines.remove_prefix(line.size());
    if (line.size() > kLongestLine) {
      show_lines_of(rank);
      screen_.whole_lines(labels_.of(rank, stream, time), line);
      continue;
    }
    const auto text = without_rank_prefix(line, rank);
    // Ranks that print the same find their line in the next group.
    const auto next = std::max(next_[index], first_);
    if (next < end() && is_equal(group(next), stream, text)) {
      join(next, rank, now);
      continue;
    }
    const auto hash = std::hash<std::string_view>()(text);
    if (const auto found = find(std::max(joined_[index], first_), rank, stream, text, hash)) {
      move_own_lines(*found, rank);
      join(*found, rank, now);
      continue;
    }
    begin_group(rank, {.line = std::string(line),
                       .prefix = line.size() - text.size(),
                       .stream = stream,
                       .time = time,
                       .since = now,
                       .renewed = now,
                       .hash = hash,
                       .count = 1,
                       .open = 1,
                       .only = rank});
    if (held_ > kMostHeld) show_before(first_ + (groups_.size() + 1) / 2);
  }
  show_complete();
}

void LineFolder::begin_group(int rank, Group group) {
  const auto index = static_cast<std::size_t>(rank);
  const auto number = end();
  auto& last = last_with_[group.hash];
  group.previous = last;
  plan(group.since + patience(group));
  held_ += group.line.size() + sizeof(Group);
  groups_.push_back(std::move(group));
  last = next_[index] = number + 1;
  auto& own = own_[index];
  while (!own.empty() && own.front() < first_) own.pop_front();
  own.push_back(number);
  if (printing_ <= 1) complete_ = number + 1;
}

std::optional<std::uint64_t> LineFolder::find(std::uint64_t from, int rank, Stream stream,
                                              std::string_view text, std::size_t hash) {
  const auto at = last_with_.find(hash);
  if (at == last_with_.end()) return std::nullopt;
  std::optional<std::uint64_t> found;
  auto next = at->second;
  for (int step = 0; step < kMostSteps && next > from; ++step) {
    const auto number = next - 1;
    const auto& candidate = group(number);
    const bool is_own = candidate.count == 1 && candidate.only == rank;
    if (!is_own && is_equal(candidate, stream, text)) found = number;
    next = candidate.previous;
  }
  return found;
}

void LineFolder::move_own_lines(std::uint64_t number, int rank) {
  auto& own = own_[static_cast<std::size_t>(rank)];
  auto& before = group(number).before;
  for (const auto each : own) {
    if (each <= number) continue;
    auto& from = group(each);
    before.push_back({rank, from.stream, from.time, std::move(from.line)});
    from.line.clear();
    from.prefix = 0;
    from.count = from.open = 0;
  }
}

void LineFolder::join(std::uint64_t number, int rank, Steady now) {
  auto& joined = group(number);
  folded_ += joined.line.size() - joined.prefix;
  if (use_ == For::failures) joined.renewed = std::min(now, joined.since + kFailures - kTogether);
  const auto set = [&](int each) {
    joined.ranks[static_cast<std::size_t>(each) / kBits] |=
        std::uint64_t{1} << static_cast<std::size_t>(each) % kBits;
  };
  if (joined.count++ == 1) {
    joined.ranks.resize((streams_.size() + kBits - 1) / kBits);
    set(joined.only);
    auto& first_rank = joined_[static_cast<std::size_t>(joined.only)];
    first_rank = std::max(first_rank, number + 1);
  }
  set(rank);
  const auto index = static_cast<std::size_t>(rank);
  own_[index].clear();
  joined_[index] = number + 1;
  next_[index] = std::max(next_[index], number + 1);
  if (++joined.open >= printing_) complete_ = std::max(complete_, number + 1);
}

// Shows the newest group that every printing rank has joined, and all before it: no rank can join
// those any more.
void LineFolder::show_complete() {
  if (complete_ <= first_) return;
  show_before(complete_);
  plan_first();
}

void LineFolder::show_lines_of(int rank) {
  const auto next = next_[static_cast<std::size_t>(rank)];
  if (next > first_) show_before(next);
}

void LineFolder::close(int rank) {
  auto& open = streams_[static_cast<std::size_t>(rank)];
  if (open == 0 || --open > 0) return;
  --printing_;
  const auto index = static_cast<std::size_t>(rank);
  for (auto number = first_; number < end(); ++number) {
    auto& each = group(number);
    const bool has_rank =
        each.count > 1 ? (each.ranks[index / kBits] >> index % kBits & 1) != 0 : each.only == rank;
    if (has_rank && each.open > 0) --each.open;
    if (each.open >= printing_) complete_ = number + 1;
  }
  show_complete();
}

std::size_t LineFolder::bytes_after(int rank) const {
  std::size_t bytes = 0;
  for (auto number = std::max(next_[static_cast<std::size_t>(rank)], first_); number < end();
       ++number)
    bytes += groups_[static_cast<std::size_t>(number - first_)].line.size();
  return bytes;
}

void LineFolder::flush() {
  show_before(end());
}

void LineFolder::tick(Steady now) {
  if (!tick_at_ || now < *tick_at_) return;
  auto until = first_;
  for (auto number = first_; number < end(); ++number) {
    const auto& each = group(number);
    if (each.count == 0) continue;
    if (now - each.renewed < patience(each)) break;
    until = number + 1;
  }
  show_before(until);
  tick_at_.reset();
  plan_first();
}

// Groups after the first one are not shown before it.
void LineFolder::plan_first() {
  for (const auto& each : groups_) {
    if (each.count == 0) continue;
    plan(each.renewed + patience(each));
    break;
  }
}

void LineFolder::plan(Steady time) {
  if (!tick_at_ || *tick_at_ > time) tick_at_ = time;
}

void LineFolder::show_before(std::uint64_t number) {
  for (; first_ < number && !groups_.empty(); ++first_) {
    const auto& oldest = groups_.front();
    show(oldest);
    held_ -= oldest.line.size() + sizeof(Group);
    for (const auto& each : oldest.before) held_ -= each.line.size();
    const auto at = last_with_.find(oldest.hash);
    if (at != last_with_.end() && at->second == first_ + 1) last_with_.erase(at);
    groups_.pop_front();
  }
}

void LineFolder::show(const Group& group) {
  for (const auto& each : group.before)
    screen_.whole_lines(labels_.of(each.rank, each.stream, each.time), each.line);
  if (group.count == 0) return;
  if (group.count == 1)
    return screen_.whole_lines(labels_.of(group.only, group.stream, group.time), group.line);
  if (labelled_ != group.ranks) {
    labelled_ = group.ranks;
    ranks_text_ = list_of(group.ranks, group.count);
  }
  screen_.whole_lines(labels_.of_several(ranks_text_, group.time),
                      std::string_view(group.line).substr(group.prefix));
}

}  // namespace hvdrun
