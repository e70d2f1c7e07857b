// A job that continues when ranks are lost, for tests: members as processes that use the C ABI, and
// a thread of the test that is the agent and the launcher, with the real Generations value.
#pragma once

#include "common/agent_messages.hpp"
#include "common/fd.hpp"
#include "job/generations.hpp"
#include "support.hpp"
#include "temporary_folder.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <sys/types.h>

namespace hvdrun::test {

// Something between the agent and a member, for the test to act at.
struct Moment {
  enum class Kind {
    came,  // the agent has got `come`
    part,  // it has got the member's part
    over,  // it has sent `over`
    go,    // it has sent `go`
    parts  // it has sent `parts`
  };
  Kind kind;
  std::uint32_t member;
  std::uint32_t generation;    // that is gathered, wired up or open
  std::uint32_t exchange = 0;  // of a part and of parts
};

class ElasticJob {
 public:
  using Body = std::function<void(int member, const libhvd::test::Child::Report& report)>;
  // Called by the agent's thread. Returns the signal that it is to send to the member at once; 0:
  // none.
  using AtMoment = std::function<int(const Moment&)>;

  // Starts the members. Each ends with 0 after its body.
  ElasticJob(int size, const Body& body, AtMoment at_moment = {},
             const std::map<std::string, std::string>& variables = {});
  ~ElasticJob();

  // Returns the member's next line; nullopt when it has ended.
  std::optional<std::string> line(int member) { return children_.at(index(member)).line(); }
  void kill(int member) { children_.at(index(member)).kill(); }
  // Returns all lines until its end.
  std::vector<std::string> lines(int member);
  // Returns what is left in the members' shared memory.
  std::vector<std::string> left_in_memory() const { return memory_.entries(); }

  // After end(): waits until all members have ended, and no more is to do.
  void end();
  const Generations::State& state() const { return generations_.state(); }
  // Returns what is wrong with what the agent has seen; "" if nothing is.
  const std::string& fault() const { return fault_; }

 private:
  struct Peer {
    Fd socket;
    AgentFrameReader reader{kMostFromMember};
  };
  static std::size_t index(int member) { return static_cast<std::size_t>(member); }

  void run();
  void accept();
  void take_hello(std::size_t at);
  bool read(Peer& peer);
  void read_frames(std::uint32_t member);
  void take(std::uint32_t member, const AgentFrame& frame);
  void reap(std::uint32_t member);
  void carry_out(const Actions& actions);
  void send(std::uint32_t member, AgentFrameKind kind, std::uint32_t generation,
            const std::string& payload);
  void at(Moment::Kind kind, std::uint32_t member, std::uint32_t generation,
          std::uint32_t exchange = 0);

  libhvd::test::TemporaryFolder memory_;
  libhvd::test::TemporaryFolder folder_;
  AtMoment at_moment_;
  Fd listener_;
  Fd stop_;  // an eventfd
  std::vector<libhvd::test::Child> children_;
  std::vector<Fd> lives_;     // pidfds; closed once the member has ended
  std::vector<Peer> guests_;  // that have not said hello
  std::map<std::uint32_t, Peer> peers_;
  Generations generations_;
  std::string fault_;
  std::thread thread_;
};

}  // namespace hvdrun::test
