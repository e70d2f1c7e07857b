// Members as threads, and an agent that the test plays: it reads and writes their frames one by
// one.
#include "bootstrap/agent_bootstrap.hpp"

#include "bootstrap/member_link.hpp"
#include "bootstrap/wireup.hpp"
#include "common/agent_messages.hpp"
#include "support.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace libhvd {
namespace {

constexpr std::chrono::minutes kLong{1};
const std::string kKey(64, 'a');

bool readable(int fd, std::chrono::milliseconds within = kLong) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, static_cast<int>(within.count())) == 1;
}

// The agent of a host, in the test's thread. It throws if a member does not do what is expected.
class ToyAgent {
 public:
  ToyAgent() : listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path().c_str(), path().size() + 1);
    if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(listener_.get(), 8) != 0)
      throw std::runtime_error("cannot listen");
  }

  std::string path() const { return folder_.file("agent"); }
  Environment environment(std::uint32_t member) const {
    return test::make_environment(
        {{"HVD_AGENT", path()}, {"HVD_MEMBER", std::to_string(member)}, {"HVD_JOB_KEY", kKey}});
  }

  // Opens the links of so many members, and accepts them.
  std::vector<std::unique_ptr<MemberLink>> open_links(std::uint32_t members) {
    std::vector<std::unique_ptr<MemberLink>> links;
    for (std::uint32_t member = 0; member < members; ++member) {
      auto link = MemberLink::open(environment(member));
      if (!link.ok()) throw std::runtime_error(link.error().message);
      links.push_back(std::move(*link));
      accept();
    }
    return links;
  }

  void accept() {
    if (!readable(listener_.get())) throw std::runtime_error("no member connects");
    Peer peer;
    peer.socket = Fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const auto frame = read(peer);
    const auto hello = decode_hello(frame.payload);
    if (frame.kind != AgentFrameKind::hello || !hello) throw std::runtime_error("no hello");
    if (kKey != hex(hello->key)) throw std::runtime_error("another key");
    peers_[hello->member] = std::move(peer);
  }

  struct Frame {
    AgentFrameKind kind;
    std::uint32_t generation;
    std::string payload;
  };
  Frame read(std::uint32_t member) { return read(peers_.at(member)); }
  MemberCome read_come(std::uint32_t member) {
    const auto frame = read(member);
    const auto come = decode_come({frame.kind, frame.generation, frame.payload});
    if (frame.kind != AgentFrameKind::come || !come) throw std::runtime_error("no come");
    return *come;
  }
  std::string read_part(std::uint32_t member, std::uint32_t exchange) {
    const auto frame = read(member);
    const auto part = decode_part(frame.payload);
    if (frame.kind != AgentFrameKind::part || !part || part->exchange != exchange)
      throw std::runtime_error("no part");
    return std::string(part->blob);
  }

  void send(std::uint32_t member, AgentFrameKind kind, std::uint32_t generation,
            const std::string& payload) {
    const auto bytes = encode_agent_frame({kind, generation, payload});
    if (::send(peers_.at(member).socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(bytes.size()))
      throw std::runtime_error("cannot send");
  }
  // Sends `go` to members of one host, in the order of ranks.
  void send_go(std::uint32_t generation, const std::vector<std::uint32_t>& members,
               std::uint32_t root = 0) {
    GenerationGo go{generation, root, {}};
    for (const auto member : members)
      go.ranks.push_back({member, 0, static_cast<std::uint32_t>(go.ranks.size()), ""});
    for (const auto member : members) send(member, AgentFrameKind::go, generation, encode(go));
  }
  void send_over(std::uint32_t member, std::uint32_t generation) {
    send(member, AgentFrameKind::over, generation,
         encode(GenerationOver{generation, OverKind::lost, {{9, "was killed by SIGKILL"}}}));
  }
  // Takes each member's part, and sends all parts to all.
  void relay(std::uint32_t generation, std::uint32_t exchange,
             const std::vector<std::uint32_t>& members) {
    GenerationParts parts{generation, exchange, {}};
    for (const auto member : members) parts.blobs.push_back(read_part(member, exchange));
    for (const auto member : members)
      send(member, AgentFrameKind::parts, generation, encode(parts));
  }
  void hang_up(std::uint32_t member) { peers_.erase(member); }

 private:
  struct Peer {
    Fd socket;
    AgentFrameReader reader{kMostFromMember};
  };

  static std::string hex(const std::array<std::uint8_t, 32>& bytes) {
    std::string text;
    for (const auto byte : bytes)
      for (const int digit : {byte >> 4, byte & 15}) text += "0123456789abcdef"[digit];
    return text;
  }
  static Frame read(Peer& peer) {
    AgentFrame frame;
    while (peer.reader.next(frame) != AgentFrameReader::Status::frame) {
      std::array<char, 4096> buffer;
      if (!readable(peer.socket.get())) throw std::runtime_error("a member sends nothing");
      const auto count = ::recv(peer.socket.get(), buffer.data(), buffer.size(), 0);
      if (count <= 0) throw std::runtime_error("a member has closed its link");
      peer.reader.feed({buffer.data(), static_cast<std::size_t>(count)});
    }
    return {frame.kind, frame.generation, std::string(frame.payload)};
  }

  test::TemporaryFolder folder_;
  Fd listener_;
  std::map<std::uint32_t, Peer> peers_;
};

template <class Body>
auto in_thread(Body body) {
  return std::async(std::launch::async, std::move(body));
}

auto open_in_thread(MemberLink& link, MemberCome come = {}) {
  return in_thread([&link, come] { return AgentBootstrap::open(link, come, {kLong, kLong}); });
}

// The bootstraps of members that come to their first generation.
std::vector<std::unique_ptr<AgentBootstrap>> start(
    ToyAgent& agent, const std::vector<std::unique_ptr<MemberLink>>& links) {
  std::vector<decltype(open_in_thread(*links[0]))> opening;
  std::vector<std::uint32_t> members;
  for (const auto& link : links) {
    opening.push_back(open_in_thread(*link));
    members.push_back(link->member());
    agent.read_come(link->member());
  }
  agent.send_go(1, members);
  std::vector<std::unique_ptr<AgentBootstrap>> bootstraps;
  for (auto& one : opening) bootstraps.push_back(std::move(*one.get()));
  return bootstraps;
}

TEST(AgentBootstrap, GivesTheNumbersAndCarriesThreeExchanges) {
  ToyAgent agent;
  const auto links = agent.open_links(3);
  const auto bootstraps = start(agent, links);
  for (int rank = 0; rank < 3; ++rank) {
    const auto& info = bootstraps[static_cast<std::size_t>(rank)]->info();
    EXPECT_EQ(info.rank, rank);
    EXPECT_EQ(info.size, 3);
    EXPECT_EQ(info.local_rank, rank);
    EXPECT_EQ(info.node_count, 1);
  }
  for (std::uint32_t exchange = 1; exchange <= 3; ++exchange) {
    std::vector<std::future<Result<std::vector<std::string>>>> exchanges;
    for (std::size_t rank = 0; rank < 3; ++rank)
      exchanges.push_back(in_thread(
          [&, rank] { return bootstraps[rank]->exchange("of " + std::to_string(rank)); }));
    agent.relay(1, exchange, {0, 1, 2});
    for (auto& one : exchanges) {
      const auto blobs = one.get();
      ASSERT_TRUE(blobs.ok()) << blobs.error().message;
      EXPECT_EQ(*blobs, (std::vector<std::string>{"of 0", "of 1", "of 2"}));
    }
  }
  EXPECT_EQ(bootstraps[0]->exchange("x").error().status, HVD_ERROR_UNSUPPORTED);
}

TEST(AgentBootstrap, CarriesARealWireUp) {
  ToyAgent agent;
  const auto links = agent.open_links(2);
  const auto bootstraps = start(agent, links);
  const test::TemporaryFolder folder;
  std::vector<std::future<Result<Wireup>>> wireups;
  for (std::size_t rank = 0; rank < 2; ++rank)
    wireups.push_back(in_thread([&, rank] {
      return wire_up(*bootstraps[rank], test::make_environment({{"HVD_SHM_DIR", folder.path()}}));
    }));
  for (std::uint32_t exchange = 1; exchange <= kLastExchange; ++exchange)
    agent.relay(1, exchange, {0, 1});
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const auto wireup = wireups[rank].get();
    ASSERT_TRUE(wireup.ok()) << wireup.error().message;
    EXPECT_EQ(wireup->topology.rank, static_cast<int>(rank));
    EXPECT_EQ(wireup->topology.local_size, 2);
  }
}

TEST(AgentBootstrap, AnOverEndsAnExchangeAtOnceAndTheMemberComesAgain) {
  ToyAgent agent;
  const auto links = agent.open_links(2);
  const auto bootstraps = start(agent, links);
  auto exchange = in_thread([&] { return bootstraps[0]->exchange("a"); });
  agent.read_part(0, 1);  // and member 1 is lost
  agent.send_over(0, 2);
  const auto ended = exchange.get();
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.error().status, HVD_ERROR_PEER);
  EXPECT_EQ(ended.error().message, "generation 1 is over: member 9 was killed by SIGKILL");
  EXPECT_TRUE(readable(links[0]->cancel_descriptor()));
  EXPECT_FALSE(bootstraps[0]->exchange("a").ok()) << "it stays over";

  MemberCome come;
  come.why = ComeReason::failed;
  come.commits = 7;
  auto opening = open_in_thread(*links[0], come);
  const auto came = agent.read_come(0);
  EXPECT_EQ(came.last_generation, 1u);
  EXPECT_EQ(came.why, ComeReason::failed);
  EXPECT_EQ(came.commits, 7u);
  EXPECT_FALSE(readable(links[0]->cancel_descriptor(), std::chrono::milliseconds(0)));
  agent.send_go(2, {0});
  const auto next = opening.get();
  ASSERT_TRUE(next.ok());
  EXPECT_EQ((*next)->info().size, 1);
  EXPECT_EQ((*next)->generation().generation, 2u);
  auto alone = in_thread([&] { return (*next)->exchange("b"); });
  agent.relay(2, 1, {0});
  EXPECT_EQ(*alone.get(), std::vector<std::string>{"b"});
}

TEST(AgentBootstrap, PartsOfAGenerationThatIsOverHaveNoEffect) {
  ToyAgent agent;
  const auto links = agent.open_links(1);
  start(agent, links);
  agent.send_over(0, 2);
  ASSERT_TRUE(readable(links[0]->cancel_descriptor()));
  auto opening = open_in_thread(*links[0]);
  agent.read_come(0);
  agent.send(0, AgentFrameKind::parts, 1, encode(GenerationParts{1, 1, {"old"}}));
  agent.send_go(2, {0});
  const auto next = opening.get();
  auto exchange = in_thread([&] { return (*next)->exchange("new"); });
  agent.relay(2, 1, {0});
  EXPECT_EQ(*exchange.get(), std::vector<std::string>{"new"});
}

TEST(MemberLink, AnOverBeforeItComesHasNoEffect) {
  ToyAgent agent;
  const auto links = agent.open_links(1);
  agent.send_over(0, 1);
  auto opening = open_in_thread(*links[0]);
  agent.read_come(0);
  agent.send_over(0, 1);
  agent.send_go(1, {0});
  ASSERT_TRUE(opening.get().ok());
  EXPECT_FALSE(links[0]->over());
}

TEST(MemberLink, CallsOnceWhenAGenerationIsOver) {
  ToyAgent agent;
  const auto links = agent.open_links(1);
  start(agent, links);
  std::promise<std::string> called;
  links[0]->set_on_over(
      [&](const GenerationOver& over) { called.set_value(over.lost.at(0).text); });
  agent.send_over(0, 2);
  agent.send_over(0, 2);  // with later losses; a second call would throw
  EXPECT_EQ(called.get_future().get(), "was killed by SIGKILL");

  bool again = false;
  links[0]->set_on_over([&](const GenerationOver&) { again = true; });
  EXPECT_FALSE(again) << "it was called for this generation";
}

TEST(MemberLink, ALaterOverIsUsedIfItKnowsWhoWasLost) {
  ToyAgent agent;
  const auto links = agent.open_links(1);
  start(agent, links);
  agent.send(0, AgentFrameKind::over, 2, encode(GenerationOver{2, OverKind::failed, {}}));
  ASSERT_TRUE(readable(links[0]->cancel_descriptor()));
  ASSERT_TRUE(links[0]->over()->lost.empty());
  agent.send_over(0, 2);
  while (links[0]->over()->lost.empty()) std::this_thread::yield();
  const GenerationGo go{1, 0, {{7, 0, 0, ""}, {9, 0, 1, ""}}};
  EXPECT_EQ(describe_over(*links[0]->over(), go), "rank 1 was killed by SIGKILL");
}

TEST(MemberLink, CallsAtOnceIfTheGenerationIsOverAlready) {
  ToyAgent agent;
  const auto links = agent.open_links(1);
  start(agent, links);
  agent.send_over(0, 2);
  ASSERT_TRUE(readable(links[0]->cancel_descriptor()));
  std::uint32_t next = 0;
  links[0]->set_on_over([&](const GenerationOver& over) { next = over.generation; });
  EXPECT_EQ(next, 2u);
}

TEST(MemberLink, KnowsOfNewcomersUntilTheNextGeneration) {
  ToyAgent agent;
  const auto links = agent.open_links(1);
  start(agent, links);
  EXPECT_EQ(links[0]->updates(), 0u);
  agent.send(0, AgentFrameKind::updated, 1, encode_updated(kUpdateAdded));
  agent.send_over(0, 2);
  ASSERT_TRUE(readable(links[0]->cancel_descriptor()));
  EXPECT_EQ(links[0]->updates(), kUpdateAdded);
  auto opening = open_in_thread(*links[0]);
  agent.read_come(0);
  agent.send_go(2, {0});
  opening.wait();
  EXPECT_EQ(links[0]->updates(), 0u);
}

TEST(MemberLink, LeavesAndComesAgain) {
  ToyAgent agent;
  const auto links = agent.open_links(1);
  start(agent, links);
  ASSERT_TRUE(links[0]->leave().ok());
  EXPECT_EQ(agent.read(0u).kind, AgentFrameKind::leave);
  auto opening = open_in_thread(*links[0]);
  EXPECT_EQ(agent.read_come(0).last_generation, 1u);
  agent.send_go(2, {0});
  EXPECT_TRUE(opening.get().ok());
}

TEST(MemberLink, AMemberThatIsNotWantedGetsNoBootstrap) {
  ToyAgent agent;
  const auto links = agent.open_links(1);
  auto opening = open_in_thread(*links[0]);
  agent.read_come(0);
  agent.send(0, AgentFrameKind::removed, 0, "the job is full");
  const auto bootstrap = opening.get();
  ASSERT_TRUE(bootstrap.ok());
  EXPECT_EQ(*bootstrap, nullptr);
  EXPECT_EQ(links[0]->why_removed(), "the job is full");
}

TEST(MemberLink, TheEndOfTheAgentEndsWaits) {
  ToyAgent agent;
  const auto links = agent.open_links(1);
  auto opening = open_in_thread(*links[0]);
  agent.read_come(0);
  agent.hang_up(0);
  const auto bootstrap = opening.get();
  ASSERT_FALSE(bootstrap.ok());
  EXPECT_EQ(bootstrap.error().status, HVD_ERROR_PEER);
  EXPECT_TRUE(readable(links[0]->cancel_descriptor()));
}

TEST(MemberLink, AGenerationWithoutThisMemberEndsTheLink) {
  ToyAgent agent;
  const auto links = agent.open_links(1);
  auto opening = open_in_thread(*links[0]);
  agent.read_come(0);
  agent.send(0, AgentFrameKind::go, 1, encode(GenerationGo{1, 0, {{7, 0, 0, ""}}}));
  EXPECT_EQ(opening.get().error().message, "the agent of this host has sent a malformed message");
}

TEST(MemberLink, AWaitHasATimeLimit) {
  ToyAgent agent;
  const auto links = agent.open_links(1);
  const auto bootstrap = AgentBootstrap::open(*links[0], {}, {std::chrono::milliseconds(1), kLong});
  EXPECT_EQ(bootstrap.error().status, HVD_ERROR_TIMEOUT);
}

TEST(MemberLink, NeedsItsVariablesAndAnAgent) {
  const auto open = [](const std::map<std::string, std::string>& variables) {
    const auto link = MemberLink::open(test::make_environment(variables));
    return link.ok() ? HVD_OK : link.error().status;
  };
  EXPECT_EQ(open({{"HVD_AGENT", "/nowhere"}, {"HVD_MEMBER", "0"}}), HVD_ERROR_ENVIRONMENT);
  EXPECT_EQ(open({{"HVD_AGENT", "/nowhere"}, {"HVD_JOB_KEY", kKey}}), HVD_ERROR_ENVIRONMENT);
  EXPECT_EQ(open({{"HVD_AGENT", "/nowhere"}, {"HVD_MEMBER", "0"}, {"HVD_JOB_KEY", kKey}}),
            HVD_ERROR_ENVIRONMENT);
  EXPECT_EQ(
      open({{"HVD_AGENT", std::string(200, 'x')}, {"HVD_MEMBER", "0"}, {"HVD_JOB_KEY", kKey}}),
      HVD_ERROR_ENVIRONMENT);
}

}  // namespace
}  // namespace libhvd
