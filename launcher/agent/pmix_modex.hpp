// Direct modex: what a rank on another host has put, asked for when a rank here wants it; and the
// answers to what other hosts ask.
//
// Owned by the PMIx server, on the agent's loop's thread; knows nothing of libpmix but through
// Fetch.
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
  // Asks libpmix for what a local rank has put, or (nothing) for what it knows of the job at once.
  // The answer comes when the rank has committed, perhaps never.
  using Fetch = std::function<void(std::optional<std::uint32_t> rank, PmixAnswer answer)>;

  PmixModex(const EventLoop& loop, PmixSend send, Fetch fetch)
      : loop_(loop), send_(std::move(send)), fetch_(std::move(fetch)) {}

  void set_job(const PmixJob& job);

  // A local rank wants what `rank`, on another host, has put.
  void ask(std::uint32_t rank, std::optional<std::chrono::seconds> timeout, PmixAnswer answer);

  // Frames of other agents, passed on by the launcher. Error: one does not fit its form, or answers
  // what was not asked.
  Result<void> on_answer(std::string_view payload);
  Result<void> on_request(std::string_view payload);

  // A local rank has ended: what it has not committed by now will never come.
  void rank_ended(std::uint32_t rank);

 private:
  struct Waiter {
    PmixAnswer answer;
    std::unique_ptr<Timer> timer;  // where there is a time limit
  };
  using Waiters = std::list<Waiter>;
  struct Owed {
    std::uint32_t rank = 0;
    PmixAnswer answer;
  };

  void serve(std::uint32_t rank, PmixAnswer answer);
  void settle(std::uint64_t owed, std::int32_t status, std::string_view data);
  void give_up(std::vector<std::uint64_t> owed);
  void expire(std::uint32_t rank, Waiters::iterator waiter);

  const EventLoop& loop_;
  PmixSend send_;
  Fetch fetch_;
  std::uint32_t own_host_ = 0;
  std::vector<std::uint32_t> host_of_;  // by rank
  // By rank: one request is under way for each. Those whose time limit has run out wait no longer;
  // the answer is then for who asks next.
  std::map<std::uint32_t, Waiters> asked_;
  std::map<std::uint64_t, Owed> owed_;  // numbered as they came
  std::uint64_t next_owed_ = 0;
  std::set<std::uint32_t> ended_;  // local ranks
};

}  // namespace hvdrun
