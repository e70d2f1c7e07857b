#include "api/stream_mesh.hpp"

#include "transport/socket_streams.hpp"

namespace libhvd {
namespace {

// A connection of this rank, before it is made.
struct Planned {
  int lane;
  int channel;
  int host;  // the other one
  Visit visit;
};

}  // namespace

Result<StreamLanes> join_streams(HostDoor door, const std::vector<HostEntry>& ranks,
                                 const std::vector<int>& hosts, int own, const JobSecret& secret,
                                 int lanes, std::chrono::milliseconds patience) {
  const StreamPlan plan(hosts);
  const int own_host = hosts[static_cast<std::size_t>(own)];
  // The earlier host's rank is visited, and knows the visitor, lane and channel by the number.
  const auto number = [&](int visitor, int lane, int channel) {
    return 1 + (visitor * kLanes + lane) * plan.channels() + channel;
  };
  JobSecret numbered = secret;
  numbered.size = number(static_cast<int>(ranks.size()), 0, 0);
  std::vector<Planned> all;
  std::vector<Visit> out;
  std::vector<Visit> in;
  const auto add = [&](int lane, int channel, int host) {
    const int peer = plan.server(channel, host);
    const int visitor = host < own_host ? own : peer;
    const Visit visit{ranks[static_cast<std::size_t>(peer)], number(visitor, lane, channel)};
    all.push_back({lane, channel, host, visit});
    (host < own_host ? out : in).push_back(visit);
  };
  const auto add_all = [&](int first_host, int end_host) {
    for (int lane = 0; lane < lanes; ++lane) {
      for (int channel = 0; channel < plan.channels(); ++channel) {
        if (plan.server(channel, own_host) != own) continue;
        for (int host = first_host; host < end_host; ++host) add(lane, channel, host);
      }
    }
  };
  add_all(0, own_host);  // in the order in which make_visits() returns them
  add_all(own_host + 1, plan.hosts());
  HVD_TRY(auto sockets, make_visits(std::move(door), ranks[static_cast<std::size_t>(own)], out, in,
                                    numbered, patience));
  std::array<std::vector<StreamEnd>, kLanes> ends;
  for (std::size_t i = 0; i < all.size(); ++i) {
    ends[static_cast<std::size_t>(all[i].lane)].push_back(
        {all[i].channel, all[i].host, all[i].visit.peer.leader, std::move(sockets[i])});
  }
  StreamLanes streams;
  for (std::size_t lane = 0; lane < static_cast<std::size_t>(lanes); ++lane)
    streams[lane] = std::make_shared<SocketStreams>(plan, std::move(ends[lane]));
  return streams;
}

}  // namespace libhvd
