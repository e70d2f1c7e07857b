// A member's connection to the agent of its host, in a job that continues when ranks are lost
// (hvdrun --min-np). It lasts for the life of the process, from one generation to the next.
//
// One thread at a time calls come(), exchange() and leave(); the others may be called from any
// thread. A thread of its own reads what the agent sends. So a wait ends at once when the
// generation is over. A forked child has no such thread, and must not destroy the link. Errors:
// HVD_ERROR_PEER if the generation is over or the agent is gone, HVD_ERROR_TIMEOUT.
#pragma once

#include "base/error.hpp"
#include "base/process_environment.hpp"
#include "common/agent_messages.hpp"
#include "common/clock.hpp"
#include "common/fd.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace libhvd {

// Returns whether the environment has an agent to connect to (HVD_AGENT).
bool has_agent(const Environment& environment);
// Returns whether this process was started while the job ran (HVD_NEWCOMER).
bool is_newcomer(const Environment& environment);

class MemberLink {
 public:
  // Connects to the socket that HVD_AGENT names, as the member that HVD_MEMBER names. Error
  // (HVD_ERROR_ENVIRONMENT): a variable is wrong, or nothing listens there.
  static Result<std::unique_ptr<MemberLink>> open(const Environment& environment);
  ~MemberLink();
  MemberLink(const MemberLink&) = delete;
  MemberLink& operator=(const MemberLink&) = delete;

  std::uint32_t member() const { return member_; }

  // Comes to the next generation, and waits until it has all its members. Fills in
  // `last_generation`. Returns nullopt if the job does not want this member any more.
  Result<std::optional<GenerationGo>> come(MemberCome come, const Deadline& deadline);

  // Gives a blob to all members of the generation, and returns theirs in the order of ranks.
  // `number`: that of the exchange, of which kLastExchange is the last in a generation.
  Result<std::vector<std::string>> exchange(std::uint32_t number, const std::string& blob,
                                            const Deadline& deadline);

  // Leaves the generation in order, or does not come to the next one. The link stays, for another
  // hvd_init.
  Result<void> leave();

  // Becomes readable when the generation is over, until come().
  int cancel_descriptor() const { return cancel_.get(); }
  // Returns why the generation is over; nullopt if it is not.
  std::optional<GenerationOver> over() const;
  // Waits for that, at most for this time. Does not wait if the agent is gone.
  std::optional<GenerationOver> wait_for_over(std::chrono::milliseconds most);
  // Returns why the job does not want this member any more; "" if it does.
  std::string why_removed() const;
  // Returns whether the agent is gone, so that no other generation can come.
  bool closed() const;
  // Sets what is called when the generation is over: once for each generation, on the link's
  // thread, or here if it is over already. It may not call this function. What was set before is
  // not running any more when this returns.
  void set_on_over(std::function<void(const GenerationOver&)> on_over);

  // Closes the connection in a child that was just forked, so that the agent sees the end of the
  // parent.
  void close_in_child() { socket_.reset(); }

  // Returns the bits of all `updated` since the generation began.
  std::uint32_t updates() const;

 private:
  enum class State { outside, coming, in };

  MemberLink() = default;
  Result<void> send(AgentFrameKind kind, std::uint32_t generation, const std::string& payload,
                    const Deadline& deadline);
  template <class Done>
  Result<void> wait(std::unique_lock<std::mutex>& lock, const Deadline& deadline,
                    const char* for_what, const Done& done);
  void run();
  bool read();
  bool take(const AgentFrame& frame);
  bool take_go(const AgentFrame& frame);
  void call_on_over();
  void close(const std::string& why);

  std::uint32_t member_ = 0;
  Fd socket_;
  Fd cancel_;  // an eventfd, as the next one
  Fd stop_;
  std::thread thread_;
  AgentFrameReader reader_{kMostToMember};  // of the thread

  mutable std::mutex mutex_;  // guards the following
  std::condition_variable changed_;
  State state_ = State::outside;
  std::uint32_t generation_ = 0;  // the last one
  std::size_t size_ = 0;          // of it
  std::optional<GenerationGo> go_;
  std::optional<GenerationParts> parts_;
  std::optional<GenerationOver> over_;
  std::uint32_t updates_ = 0;
  std::optional<std::string> removed_;  // why
  std::optional<std::string> closed_;   // why

  std::mutex calling_;  // held while on_over_ is called
  std::function<void(const GenerationOver&)> on_over_;
  std::uint32_t called_for_ = 0;  // the generation that was over
};

// Returns "generation 3 is over: member 2 was killed by SIGKILL".
std::string describe_over(const GenerationOver& over);
// Returns "rank 2 was killed by SIGKILL", with the ranks of the generation that is over.
std::string describe_over(const GenerationOver& over, const GenerationGo& generation);

// Returns the rank of a member; nullopt if it is not in the generation.
std::optional<int> rank_of(const GenerationGo& generation, std::uint32_t member);

}  // namespace libhvd
