#include "agent/pmix_modex.hpp"

#include "protocol/pmix_messages.hpp"

#include <utility>

namespace hvdrun {

void PmixModex::set_job(const PmixJob& job) {
  own_host_ = static_cast<std::uint32_t>(job.host_index);
  host_of_ = job.host_of_ranks();
}

// --- requests of local ranks ---------------------------------------------------------------------

void PmixModex::ask(std::uint32_t rank, std::optional<std::chrono::seconds> timeout,
                    PmixAnswer answer) {
  if (rank >= host_of_.size()) return answer(kPmixNotFound, {});
  // libpmix believes that a local rank that has left is one of another host.
  if (host_of_[rank] == own_host_) return serve(rank, std::move(answer));
  const auto [at, first] = asked_.try_emplace(rank);
  auto& waiters = at->second;
  const auto waiter = waiters.insert(waiters.end(), Waiter{std::move(answer), nullptr});
  if (timeout) {
    waiter->timer = std::make_unique<Timer>(loop_, [this, rank, waiter] { expire(rank, waiter); });
    waiter->timer->start(*timeout);
  }
  if (first) send_(FrameType::modex_request, host_of_[rank], pack_modex_request({own_host_, rank}));
}

void PmixModex::expire(std::uint32_t rank, Waiters::iterator waiter) {
  const auto late = std::move(*waiter);
  asked_[rank].erase(waiter);
  late.answer(kPmixTimeout, {});
}

Result<void> PmixModex::on_answer(std::string_view payload) {
  HVD_TRY(const auto answer, parse_modex_answer(payload));
  const auto at = asked_.find(answer.request.rank);
  if (answer.request.asker != own_host_ || at == asked_.end())
    return fail("the launcher sent the answer to a modex request that this host did not make");
  const auto waiters = std::move(at->second);
  asked_.erase(at);
  for (const auto& waiter : waiters) waiter.answer(answer.status, answer.data);
  return {};
}

// --- requests of other hosts ---------------------------------------------------------------------

Result<void> PmixModex::on_request(std::string_view payload) {
  HVD_TRY(const auto request, parse_modex_request(payload));
  if (request.rank >= host_of_.size() || host_of_[request.rank] != own_host_)
    return fail("the launcher sent a modex request for a rank that this host does not have");
  serve(request.rank, [this, request](std::int32_t status, std::string_view data) {
    send_(FrameType::modex_answer, request.asker, pack_modex_answer({request, status, data}));
  });
  return {};
}

void PmixModex::serve(std::uint32_t rank, PmixAnswer answer) {
  const auto number = next_request_++;
  open_requests_.emplace(number, Request{rank, std::move(answer)});
  fetch_(rank, [this, number](std::int32_t status, std::string_view data) {
    settle(number, status, data);
  });
  if (ended_.contains(rank)) give_up({number});
}

void PmixModex::settle(std::uint64_t request, std::int32_t status, std::string_view data) {
  const auto at = open_requests_.find(request);
  if (at == open_requests_.end()) return;  // given up
  const auto settled = std::move(at->second);
  open_requests_.erase(at);
  // To libpmix an empty answer would mean that the asking server already has the data.
  if (status == kPmixSuccess && data.empty()) status = kPmixNotFound;
  settled.answer(status, data);
}

// Answers the requests with an error unless libpmix still has their data. libpmix keeps a request
// for a rank that never commits for ever, but it handles requests in order. So if it can answer
// them, it does so before it answers a request that needs no wait.
void PmixModex::give_up(std::vector<std::uint64_t> requests) {
  fetch_(std::nullopt, [this, requests = std::move(requests)](std::int32_t, std::string_view) {
    for (const auto number : requests) settle(number, kPmixNotFound, {});
  });
}

void PmixModex::rank_ended(std::uint32_t rank) {
  ended_.insert(rank);
  std::vector<std::uint64_t> requests;
  for (const auto& [number, request] : open_requests_)
    if (request.rank == rank) requests.push_back(number);
  if (!requests.empty()) give_up(std::move(requests));
}

}  // namespace hvdrun
