#include "output/follow_on_errors.hpp"

#include "model/traceback.hpp"

#include <algorithm>
#include <utility>

namespace hvdrun {
namespace {

constexpr std::size_t kLastLine = 128;  // bytes; enough for the words between tracebacks

// Returns where the line begins that has a traceback's header at `header`: after a progress bar,
// and before PyTorch's "[rank3]: " and Python's "  + Exception Group ".
std::size_t begin_of(std::string_view bytes, std::size_t header) {
  const auto end = bytes.substr(0, header).find_last_of("\r\n");
  return end == std::string_view::npos ? 0 : end + 1;
}

}  // namespace

void FollowOnErrors::begin(std::size_t ranks) {
  settle(std::nullopt);
  ranks_.assign(ranks, {});
  causes_.clear();
}

void FollowOnErrors::write(int number, std::string_view bytes, OutputTime time, Steady now) {
  auto& each = rank(number);
  if (each.held.empty()) {
    const auto header = bytes.find(kTracebackHeader);
    if (header == std::string_view::npos)
      return show(number, bytes, time, bytes.starts_with(kTerminateHeader));
    const auto begin = begin_of(bytes, header);
    if (begin > 0) show(number, bytes.substr(0, begin), time);
    bytes.remove_prefix(begin);
    // The rest of a chain whose beginning is shown.
    if (each.last_line.find("the above exception") != std::string::npos ||
        each.last_line.find("The above exception") != std::string::npos)
      return show(number, bytes, time, true);
    each.time = time;
    each.until = now + kUnfinished;
    waiting_.insert(number);
  }
  each.held += bytes;
  look(number, now);
}

// Looks at the lines that have come, until it finds the exception.
void FollowOnErrors::look(int number, Steady now) {
  auto& each = rank(number);
  while (each.block == 0) {
    const auto newline = each.held.find('\n', each.parsed);
    if (newline == std::string::npos) break;
    const auto line = std::string_view(each.held).substr(each.parsed, newline - each.parsed);
    const bool is_first = each.parsed == 0;
    each.parsed = newline + 1;
    if (is_first || continues_traceback(line)) continue;
    if (!is_peer_error(line)) return show_held(number);
    each.block = each.parsed;
    each.until = now + kPatience;
  }
  if (each.block > 0 && has_cause_for(number)) return put_aside(number);
  if (each.held.size() > kMostHeld) show_held(number);
}

bool FollowOnErrors::has_cause_for(int number) const {
  return std::ranges::any_of(causes_, [&](int cause) { return cause != number; });
}

void FollowOnErrors::failed(int number) {
  if (static_cast<std::size_t>(number) >= ranks_.size() || rank(number).block > 0) return;
  causes_.insert(number);
  for (const int other : std::set(waiting_))
    if (other != number && rank(other).block > 0) put_aside(other);
}

void FollowOnErrors::close(int number) {
  if (static_cast<std::size_t>(number) < ranks_.size() && rank(number).block == 0)
    show_held(number);
}

void FollowOnErrors::put_aside(int number) {
  auto& each = rank(number);
  each.aside.append(each.held, 0, each.block);
  each.held.erase(0, each.block);
  show_held(number);
}

void FollowOnErrors::settle(std::optional<int> first_failure) {
  for (const int number : std::set(waiting_)) {
    const bool follows = first_failure && number != *first_failure && rank(number).block > 0;
    follows ? put_aside(number) : show_held(number);
  }
  if (!first_failure || static_cast<std::size_t>(*first_failure) >= ranks_.size()) return;
  auto& each = rank(*first_failure);
  show(*first_failure, std::exchange(each.aside, {}), each.time, true);
}

std::optional<FollowOnErrors::Steady> FollowOnErrors::next_tick() const {
  std::optional<Steady> next;
  for (const int number : waiting_) {
    const auto until = ranks_[static_cast<std::size_t>(number)].until;
    if (!next || until < *next) next = until;
  }
  return next;
}

void FollowOnErrors::tick(Steady now) {
  for (const int number : std::set(waiting_))
    if (rank(number).until <= now) show_held(number);
}

void FollowOnErrors::show_held(int number) {
  auto& each = rank(number);
  waiting_.erase(number);
  each.parsed = each.block = 0;
  show(number, std::exchange(each.held, {}), each.time, true);
}

void FollowOnErrors::show(int number, std::string_view bytes, OutputTime time, bool fails) {
  if (bytes.empty()) return;
  auto& last = rank(number).last_line;
  const auto end = bytes.substr(bytes.size() - std::min(bytes.size(), kLastLine));
  last.assign(bytes.size() < kLastLine && last.size() + bytes.size() < 2 * kLastLine
                  ? last + std::string(end)
                  : std::string(end));
  show_(number, bytes, time, fails);
}

}  // namespace hvdrun
