// A session's part in a job that continues when ranks are lost: how the agent's word that the
// generation is over ends the calls of this rank, and with what the rank comes to the next one.
#include "common/clock.hpp"
#include "session/session.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace libhvd {
namespace {

SeenFailure seen(FailureKind kind) {
  switch (kind) {
    case FailureKind::over:
      return SeenFailure::over;
    case FailureKind::died:
    case FailureKind::left:
      return SeenFailure::ended;
    case FailureKind::silent:
      return SeenFailure::silent;
    default:
      return SeenFailure::other;
  }
}

}  // namespace

int Session::member() const {
  if (link_ != nullptr) return static_cast<int>(link_->member());
  return communicator_.number(topology_.rank);
}

void Session::listen_to_agent() {
  communicator_.segment()->set_explain([this](const Failure& failure) { return explain(failure); });
  link_->set_on_over([this](const GenerationOver& over) { end_collectives(over); });
}

// Ends all calls of this rank, and of the others on this host, which learn the same from the agent.
// On the link's thread.
void Session::end_collectives(const GenerationOver& over) {
  int rank = topology_.rank;
  for (const LostMember& lost : over.lost) rank = rank_of(*go_, lost.member).value_or(rank);
  communicator_.segment()->set_failure(FailureKind::over, rank);
  const std::lock_guard lock(engines_);
  for (const auto& [number, set] : process_sets_) set->fail(FailureKind::over);
}

// Returns the agent's word for what this rank, or another one of this host, has seen. It may come a
// moment later than that.
std::optional<std::string> Session::explain(const Failure& failure) {
  constexpr std::int64_t kMostMs = 1000;  // in all
  if (failure.kind != FailureKind::died && failure.kind != FailureKind::over) return std::nullopt;
  const std::uint64_t now = monotonic_ns();
  std::uint64_t since = 0;
  if (explains_since_ns_.compare_exchange_strong(since, now)) since = now;
  const auto waited_ms = static_cast<std::int64_t>((now - std::min(since, now)) / 1'000'000);
  const auto over = link_->wait_for_over(
      std::chrono::milliseconds(std::max<std::int64_t>(0, kMostMs - waited_ms)));
  // A death that the agent has not seen yet says more than that others have failed.
  if (!over || (over->lost.empty() && failure.kind == FailureKind::died)) return std::nullopt;
  return describe_over(*over, *go_);
}

MemberCome Session::come_after() {
  MemberCome come;
  if (newcomer()) return come;  // to its first generation
  come.why = ComeReason::failed;
  come.step = page_.step();
  const auto over = link_->over();
  const auto failure = over ? std::nullopt : communicator_.find_failure();
  if (over) {
    come.failure = SeenFailure::over;
  } else if (const auto known = failure ? failure : communicator_.segment()->failure()) {
    come.failure = seen(known->kind);
    come.accused = go_->ranks[static_cast<std::size_t>(known->rank)].member;
  } else {
    come.why = ComeReason::asked;
  }
  return come;
}

CarriedOver Session::carry_over() {
  page_.end_collective(false, 0, 0);
  page_.clear_background(false);
  return {std::exchange(page_, StatusPage()), std::exchange(signals_, nullptr)};
}

}  // namespace libhvd
