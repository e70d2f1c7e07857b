#include "transport/bridge.hpp"

#include "base/thread.hpp"
#include "common/clock.hpp"
#include "common/net/tcp.hpp"

#include <algorithm>

#include <poll.h>

namespace libhvd {
namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kBeatNs = 1000 * kMs;
constexpr std::uint64_t kBridgeLookNs = 20 * kMs;
// A turn that took longer than this means that the process was stopped.
constexpr std::uint64_t kOwnStopNs = 1500 * kMs;
// How long the others may take to receive the goodbye, and if the launcher has said that this
// generation is over.
constexpr std::uint64_t kLeaveNs = 1000 * kMs;
constexpr std::uint64_t kLeaveAfterOverNs = 20 * kMs;
constexpr std::uint64_t kLeaseNs = 2 * kMs;
constexpr std::size_t kFewLinks = 4;

void poll_for(std::vector<pollfd>& entries, std::uint64_t most_ns) {
  constexpr std::uint64_t kSecond = 1000 * kMs;
  const timespec limit{static_cast<time_t>(most_ns / kSecond),
                       static_cast<long>(most_ns % kSecond)};
  ::ppoll(entries.data(), entries.size(), &limit, nullptr);
}

}  // namespace

Result<std::unique_ptr<Bridge>> Bridge::start(std::shared_ptr<Segment> segment,
                                              std::vector<HostSocket> sockets,
                                              std::chrono::milliseconds silence) {
  std::unique_ptr<Bridge> bridge(new Bridge(std::move(segment), std::move(sockets), silence));
  bridge->last_turn_ns_ = monotonic_ns();
  bridge->segment_->set_bridge_here(bridge.get());
  HVD_TRY(bridge->thread_,
          start_thread("speaks to other hosts", [raw = bridge.get()] { raw->run(); }));
  return bridge;
}

Bridge::Bridge(std::shared_ptr<Segment> segment, std::vector<HostSocket> sockets,
               std::chrono::milliseconds silence)
    : segment_(std::move(segment)),
      rank_(segment_->bridge().value_or(0)),
      silence_ns_(static_cast<std::uint64_t>(silence.count()) * kMs),
      locals_(segment_->ranks_on(static_cast<int>(segment_->header().host))) {
  for (HostSocket& entry : sockets) {
    links_.emplace_back(segment_, entry.host, std::move(entry.socket));
  }
}

Bridge::~Bridge() {
  segment_->set_bridge_here(nullptr);
  if (!thread_.joinable()) return;
  stop_.store(true, std::memory_order_seq_cst);
  segment_->doorbell().ring();
  thread_.join();
}

void Bridge::close_in_child() {
  for (BridgeLink& link : links_) link.close();
}

// The own thread.
void Bridge::run() {
  // More may have arrived with the handshake of TLS, which poll(2) does not report.
  turns_.lock();
  for (BridgeLink& link : links_) receive(link);
  turns_.unlock();
  while (true) {
    std::unique_lock turns(turns_, std::try_to_lock);
    if (!turns || (ranks_have_turns() && !rung_ && !stop_.load(std::memory_order_seq_cst))) {
      if (turns) turns.unlock();
      wait_beside_ranks();
      continue;
    }
    rung_ = false;
    const std::uint64_t now = monotonic_ns();
    if (stop_.load(std::memory_order_seq_cst) && !leaving_) begin_leaving(now);
    segment_->header().bridge_sleeps.store(0, std::memory_order_seq_cst);
    receive_from_all();
    if (done(now)) break;
    look(now);
    segment_->header().bridge_sleeps.store(1, std::memory_order_seq_cst);
    const bool busy = has_output() || (stop_.load(std::memory_order_seq_cst) && !leaving_);
    auto entries = what_to_poll();
    const std::uint64_t most_ns = busy ? 0 : sleep_ns(now);
    turns.unlock();
    poll_for(entries, most_ns);
    if (entries[0].revents == 0) continue;
    segment_->doorbell().drain();
    rung_ = true;
  }
  for (BridgeLink& link : links_) link.close();
  segment_->set_failure_sent();
}

bool Bridge::ranks_have_turns() const {
  return monotonic_ns() < ranks_until_ns_.load(std::memory_order_relaxed);
}

// Sleeps while ranks send and receive themselves.
void Bridge::wait_beside_ranks() {
  std::vector<pollfd> doorbell{{segment_->doorbell().fd(), POLLIN, 0}};
  poll_for(doorbell, kLeaseNs);
  if (doorbell[0].revents == 0) return;
  segment_->doorbell().drain();
  rung_ = true;
}

bool Bridge::take_turns() {
  if (!turns_.try_lock()) return false;
  slept_ = false;
  segment_->header().bridge_sleeps.store(0, std::memory_order_seq_cst);
  return true;
}

void Bridge::turn() {
  const std::uint64_t now = monotonic_ns();
  ranks_until_ns_.store(now + kLeaseNs, std::memory_order_relaxed);
  look(now);
  receive_from_all();
}

void Bridge::sleep(const std::function<bool()>& ready, std::uint64_t most_ns) {
  slept_ = true;
  const std::uint64_t now = monotonic_ns();
  ranks_until_ns_.store(now + most_ns + kLeaseNs, std::memory_order_relaxed);
  auto& sleeps = segment_->header().bridge_sleeps;
  sleeps.store(1, std::memory_order_seq_cst);
  auto entries = what_to_poll();
  if (!ready() && !has_output()) poll_for(entries, std::min(most_ns, sleep_ns(now)));
  sleeps.store(0, std::memory_order_seq_cst);
  if (entries[0].revents != 0) segment_->doorbell().drain();
  receive_from(entries);
}

// The own thread is woken if there is something left to do, or if it may sleep for long.
void Bridge::return_turns() {
  const std::uint64_t now = monotonic_ns();
  if (has_output()) send_all(now);
  segment_->header().bridge_sleeps.store(1, std::memory_order_seq_cst);
  const bool wanted = slept_ || has_output() || blocked() || segment_->failed() ||
                      stop_.load(std::memory_order_seq_cst);
  ranks_until_ns_.store(wanted ? 0 : now + kLeaseNs, std::memory_order_relaxed);
  turns_.unlock();
  if (wanted) segment_->doorbell().ring();
}

// Sends what is due, and looks for failures.
void Bridge::look(std::uint64_t now) {
  notice_own_stop(now);
  look_for_dead_ranks(now);
  look_for_silent_hosts(now);
  judge_suspect(now);
  send_all(now);
  note_sent_failure();
}

bool Bridge::done(std::uint64_t now) const {
  if (!leaving_) return false;
  const auto open = [](const BridgeLink& link) { return link.open(); };
  return now >= leave_by_ns_ || std::none_of(links_.begin(), links_.end(), open);
}

void Bridge::notice_own_stop(std::uint64_t now) {
  if (now - last_turn_ns_ > kOwnStopNs) {
    for (BridgeLink& link : links_) link.set_heard(now);
  }
  last_turn_ns_ = now;
}

void Bridge::begin_leaving(std::uint64_t now) {
  leaving_ = true;
  const auto failure = segment_->failure();
  const bool is_over = failure && failure->kind == FailureKind::over;
  leave_by_ns_ = now + (is_over ? kLeaveAfterOverNs : kLeaveNs);
  for (BridgeLink& link : links_) link.send_goodbye();
}

void Bridge::send_all(std::uint64_t now) {
  const bool beat = now >= next_beat_ns_;
  if (beat) next_beat_ns_ = now + kBeatNs;
  for (BridgeLink& link : links_) {
    if (!link.open()) continue;
    if (beat) link.send_beat();
    link.send();
  }
}

void Bridge::note_sent_failure() {
  if (failure_is_sent_ || !segment_->failed()) return;
  const auto sent = [](const BridgeLink& link) { return !link.open() || link.failure_is_sent(); };
  failure_is_sent_ = std::all_of(links_.begin(), links_.end(), sent);
  if (failure_is_sent_) segment_->set_failure_sent();
}

bool Bridge::has_output() const {
  const auto ready = [](const BridgeLink& link) { return link.open() && link.has_output(); };
  return std::any_of(links_.begin(), links_.end(), ready);
}

bool Bridge::blocked() const {
  const auto is_blocked = [](const BridgeLink& link) { return link.open() && link.blocked(); };
  return std::any_of(links_.begin(), links_.end(), is_blocked);
}

// Returns the doorbell, then the links. poll(2) skips those that are closed.
std::vector<pollfd> Bridge::what_to_poll() const {
  std::vector<pollfd> entries{{segment_->doorbell().fd(), POLLIN, 0}};
  for (const BridgeLink& link : links_) {
    const int events = link.blocked() ? POLLIN | POLLOUT : POLLIN;
    entries.push_back({link.socket(), static_cast<short>(events), 0});
  }
  return entries;
}

// `entries`: what what_to_poll() has returned.
void Bridge::receive_from(const std::vector<pollfd>& entries) {
  for (std::size_t i = 0; i < links_.size(); ++i) {
    if ((entries[i + 1].revents & ~POLLOUT) != 0 && links_[i].open()) receive(links_[i]);
  }
}

// Trying to receive costs less than poll(2) if there are few links.
void Bridge::receive_from_all() {
  if (links_.size() > kFewLinks) {
    auto entries = what_to_poll();
    poll_for(entries, 0);
    return receive_from(entries);
  }
  for (BridgeLink& link : links_) {
    if (link.open()) receive(link);
  }
}

std::uint64_t Bridge::sleep_ns(std::uint64_t now) const {
  std::uint64_t until = next_beat_ns_;
  if (any_rank_waits()) until = std::min(until, now + kBridgeLookNs);
  if (leaving_) until = std::min(until, leave_by_ns_);
  if (suspect_) until = std::min(until, suspect_->judged_ns);
  for (const BridgeLink& link : links_) {
    if (link.open() && silence_ns_ > 0) until = std::min(until, link.heard_ns() + silence_ns_);
  }
  return until <= now ? 0 : until - now;
}

// Returns whether in some lane not all ranks are at the same step.
bool Bridge::any_rank_waits() const {
  const auto arrived = [&](int number) {
    return segment_->block(number).arrived.load(std::memory_order_relaxed);
  };
  const int size = segment_->size();
  for (int number = 0; number < segment_->blocks(); ++number) {
    if (arrived(number) != arrived(number / size * size)) return true;
  }
  return false;
}

void Bridge::receive(BridgeLink& link) {
  const auto end = link.receive();
  if (!end) return;
  switch (*end) {
    case LinkEnd::goodbye:
      link.close();
      return;
    case LinkEnd::closed:
      return give_up(link, FailureKind::died);
    case LinkEnd::silent:
      return give_up(link, FailureKind::silent);
    case LinkEnd::garbled:
      return give_up(link, FailureKind::garbled);
  }
}

// Closes the link. The failure is that of the rank with the bridge there, the first of its host.
void Bridge::give_up(BridgeLink& link, FailureKind kind) {
  link.close();
  if (leaving_) return;  // a rank that leaves need not know why others do
  const int rank = segment_->ranks_on(link.host()).front();
  if (kind != FailureKind::died) return segment_->set_failure(kind, rank);
  if (!suspect_) suspect_ = Suspect{rank, monotonic_ns() + kBridgeLookNs};
}

void Bridge::judge_suspect(std::uint64_t now) {
  if (!suspect_ || now < suspect_->judged_ns) return;
  const auto leaver = find_awaited_leaver();
  if (leaver) {
    segment_->set_failure(FailureKind::left, *leaver);
  } else {
    segment_->set_failure(FailureKind::died, suspect_->rank);
  }
  suspect_.reset();
}

// Returns a rank that has left while others wait for it, which may be why one of them ended.
std::optional<int> Bridge::find_awaited_leaver() const {
  for (int rank = 0; rank < segment_->size(); ++rank) {
    if (segment_->block(rank).left.load(std::memory_order_seq_cst) == 0) continue;
    for (int number = 0; number < segment_->blocks(); ++number) {
      const int own = number / segment_->size() * segment_->size() + rank;
      const auto arrived = [&](int block) {
        return segment_->block(block).arrived.load(std::memory_order_relaxed);
      };
      if (arrived(number) == arrived(own) + 1) return rank;
    }
  }
  return std::nullopt;
}

void Bridge::look_for_silent_hosts(std::uint64_t now) {
  if (silence_ns_ == 0) return;
  for (BridgeLink& link : links_) {
    if (!link.open() || now < link.heard_ns() + silence_ns_) continue;
    // If the host's kernel answers, the process there does not run, but its host is up.
    if (has_acknowledged(link.socket(), std::chrono::milliseconds(silence_ns_ / kMs)))
      link.set_heard(now - silence_ns_ + kBeatNs);  // looked at again after a beat
    else
      give_up(link, FailureKind::silent);
  }
}

void Bridge::look_for_dead_ranks(std::uint64_t now) {
  if (leaving_ || now < next_look_ns_ || !any_rank_waits()) return;
  next_look_ns_ = now + kBridgeLookNs;
  for (const int rank : locals_) {
    if (rank == rank_ || segment_->alive(rank)) continue;
    // Read in this order, because a rank that leaves publishes that before it ends.
    const bool left = segment_->block(rank).left.load(std::memory_order_seq_cst) != 0;
    if (!left) segment_->set_failure(FailureKind::died, rank);
  }
}

}  // namespace libhvd
