// PMIx's direct modex. It asks other hosts for the data that their ranks have put, when a rank here
// wants it, and answers the same requests of other hosts.
//
// The PMIx server owns it, on the agent's loop thread. It uses libpmix only through Fetch. A
// request that fails is answered with one of PMIx's errors.
#pragma once

#include "agent/pmix_fences.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

namespace hvdrun {

class PmixModex {
 public:
  // Asks libpmix for the data that a local rank has put. The answer comes when the rank has
  // committed, perhaps never. Without a rank it asks for the data of the job, which needs no wait.
  using Fetch = std::function<void(std::optional<std::uint32_t> rank, PmixAnswer answer)>;

  PmixModex(const EventLoop& loop, PmixSend send, Fetch fetch)
      : loop_(loop), send_(std::move(send)), fetch_(std::move(fetch)) {}

  void set_job(const PmixJob& job);

  // Answers with the data that `rank`, usually of another host, has put. `timeout`: nullopt for no
  // limit.
  void ask(std::uint32_t rank, std::optional<std::chrono::seconds> timeout, PmixAnswer answer);

  // Handle frames of other agents, which the launcher has forwarded. Error: the frame is malformed,
  // answers a request that was not made, or asks for a rank that this host does not have.
  Result<void> on_answer(std::string_view payload);
  Result<void> on_request(std::string_view payload);

  // Call it when a local rank has ended. Requests for data that it has not committed fail.
  void rank_ended(std::uint32_t rank);

 private:
  struct Waiter {
    PmixAnswer answer;
    std::unique_ptr<Timer> timer;  // null without a time limit
  };
  using Waiters = std::list<Waiter>;
  // A request for a local rank's data that is not answered yet.
  struct Request {
    std::uint32_t rank = 0;
    PmixAnswer answer;
  };

  void serve(std::uint32_t rank, PmixAnswer answer);
  void settle(std::uint64_t request, std::int32_t status, std::string_view data);
  void give_up(std::vector<std::uint64_t> requests);
  void expire(std::uint32_t rank, Waiters::iterator waiter);

  const EventLoop& loop_;
  PmixSend send_;
  Fetch fetch_;
  std::uint32_t own_host_ = 0;
  std::vector<std::uint32_t> host_of_;  // by rank
  // The local ranks that wait for a rank of another host, by that rank. One request is under way
  // for each. It stays under way when the last waiter has timed out; its answer is then for the
  // next one.
  std::map<std::uint32_t, Waiters> asked_;
  std::map<std::uint64_t, Request> open_requests_;  // by number, in the order of arrival
  std::uint64_t next_request_ = 0;
  std::set<std::uint32_t> ended_;  // local ranks
};

}  // namespace hvdrun
