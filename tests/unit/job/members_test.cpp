// Both halves together: members as threads with real links and bootstraps, and the real Generations
// value. The test is the agent, which relays, and the launcher's event loop.
#include "bootstrap/agent_bootstrap.hpp"
#include "bootstrap/member_link.hpp"
#include "common/agent_messages.hpp"
#include "common/fd.hpp"
#include "job/generations.hpp"
#include "job/member_frames.hpp"
#include "protocol/member_messages.hpp"
#include "temporary_folder.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace hvdrun {
namespace {

constexpr int kLongMs = 60'000;
constexpr std::uint32_t kMembers = 4;

// Relays between the members of one host and Generations until all have closed their links.
class HostOfMembers {
 public:
  HostOfMembers() : generations_({}, places()), listener_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path().c_str(), path().size() + 1);
    if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(listener_.get(), kMembers) != 0)
      throw std::runtime_error("cannot listen");
  }

  std::string path() const { return folder_.path().string() + "/agent"; }

  void run() {
    for (std::uint32_t i = 0; i < kMembers; ++i) accept();
    while (!peers_.empty()) {
      std::vector<pollfd> waits;
      std::vector<std::uint32_t> members;
      for (const auto& [member, peer] : peers_) {
        waits.push_back({peer.socket.get(), POLLIN, 0});
        members.push_back(member);
      }
      if (::poll(waits.data(), waits.size(), kLongMs) <= 0) throw std::runtime_error("it hangs");
      for (std::size_t i = 0; i < waits.size(); ++i)
        if (waits[i].revents != 0) read(members[i]);
    }
  }

 private:
  struct Peer {
    Fd socket;
    AgentFrameReader reader{kMostFromMember};
  };

  static std::vector<MemberPlace> places() {
    std::vector<MemberPlace> places;
    for (std::uint32_t i = 0; i < kMembers; ++i) places.push_back({i, 0, i});
    return places;
  }

  void accept() {
    Peer peer;
    peer.socket = Fd(::accept(listener_.get(), nullptr, nullptr));
    AgentFrame frame;
    while (peer.reader.next(frame) != AgentFrameReader::Status::frame)
      if (!receive(peer)) throw std::runtime_error("no hello");
    const auto member = decode_hello(frame.payload)->member;
    peers_[member] = std::move(peer);
    read_frames(member);
  }

  static bool receive(Peer& peer) {
    std::array<char, 4096> buffer;
    const auto count = ::recv(peer.socket.get(), buffer.data(), buffer.size(), 0);
    if (count > 0) peer.reader.feed({buffer.data(), static_cast<std::size_t>(count)});
    return count > 0;
  }

  void read(std::uint32_t member) {
    if (receive(peers_.at(member))) return read_frames(member);
    peers_.erase(member);
    carry_out(generations_.lost(member, "was lost"));
  }

  void read_frames(std::uint32_t member) {
    AgentFrame frame;
    while (peers_.at(member).reader.next(frame) == AgentFrameReader::Status::frame) {
      const auto payload = pack_from_member({member, frame.generation, frame.payload});
      const auto actions =
          take_member_frame(generations_, 0, {*frame_type_of(frame.kind), kToLauncher, payload});
      if (!actions) throw std::runtime_error(actions.error().message);
      carry_out(*actions);
    }
  }

  void carry_out(const Actions& actions) {
    for (const auto& action : actions) {
      const auto frame = frame_of(action);
      if (!frame) continue;
      const auto message = parse_to_members(*frame->payload);
      const auto bytes = encode_agent_frame(
          {*agent_frame_kind_of(frame->type), message->generation, message->payload});
      for (const auto member : message->members)
        if (const auto peer = peers_.find(member); peer != peers_.end())
          ::send(peer->second.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    }
  }

  TemporaryFolder folder_;
  Generations generations_;
  Fd listener_;
  std::map<std::uint32_t, Peer> peers_;
};

// Before which exchange a member dies; kLastExchange + 1: when its generation is open.
using Point = std::uint32_t;

// The life of a member: it comes until it is in a generation of two. It dies at `dies_at` of a
// generation of so many as `dies_in`. Returns the members of the last generation; "" if it died.
std::string live(const std::string& path, std::uint32_t number, std::size_t dies_in,
                 Point dies_at) {
  const std::map<std::string, std::string> variables{{"HVD_AGENT", path},
                                                     {"HVD_MEMBER", std::to_string(number)},
                                                     {"HVD_JOB_KEY", std::string(64, 'a')}};
  auto link = libhvd::MemberLink::open([&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
  if (!link.ok()) return link.error().message;
  MemberCome come;
  while (true) {
    const std::chrono::milliseconds long_time(kLongMs);
    const auto opened = libhvd::AgentBootstrap::open(**link, come, {long_time, long_time});
    if (!opened.ok()) return opened.error().message;
    auto& bootstrap = **opened;
    const auto& generation = bootstrap.generation();
    std::string text = "generation " + std::to_string(generation.generation) + ":";
    for (const auto& rank : generation.ranks) text += " " + std::to_string(rank.member);
    const bool dies = generation.ranks.size() == dies_in;
    bool is_over = false;
    for (std::uint32_t exchange = 1; exchange <= kLastExchange && !is_over; ++exchange) {
      if (dies && exchange == dies_at) return {};
      const auto blobs = bootstrap.exchange(text);
      is_over = !blobs.ok();
      if (is_over && blobs.error().status != HVD_ERROR_PEER) return blobs.error().message;
      if (is_over) continue;
      for (const auto& blob : *blobs)
        if (blob != text) return "another member is in " + blob + ", not in " + text;
    }
    if (!is_over && dies) return {};
    if (!is_over && generation.ranks.size() == 2) return text.substr(text.find(':') + 2);
    pollfd wait{(*link)->cancel_descriptor(), POLLIN, 0};
    if (::poll(&wait, 1, kLongMs) != 1) return "no `over` comes in " + text;
    come.why = ComeReason::failed;
  }
}

class Members : public testing::TestWithParam<std::tuple<Point, Point>> {};

TEST_P(Members, SurviveTwoDeathsWhereverTheyHappen) {
  HostOfMembers host;
  const auto [first, second] = GetParam();
  std::vector<std::future<std::string>> lives;
  // Member 3 dies in the generation of four, and member 0, which is rank 0, in that of three.
  for (std::uint32_t number = 0; number < kMembers; ++number)
    lives.push_back(std::async(std::launch::async, live, host.path(), number,
                               number == 3   ? 4u
                               : number == 0 ? 3u
                                             : 0u,
                               number == 3 ? first : second));
  host.run();
  EXPECT_EQ(lives[3].get(), "");
  EXPECT_EQ(lives[0].get(), "");
  const auto last = lives[1].get();
  EXPECT_TRUE(last == "1 2" || last == "2 1") << last;
  EXPECT_EQ(lives[2].get(), last);
}

INSTANTIATE_TEST_SUITE_P(AtEachPoint, Members,
                         testing::Combine(testing::Range(1u, kLastExchange + 2),
                                          testing::Range(1u, kLastExchange + 2)));

}  // namespace
}  // namespace hvdrun
