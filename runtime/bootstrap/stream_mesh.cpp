#include "bootstrap/stream_mesh.hpp"

#include "transport/mpi_streams.hpp"
#include "transport/socket_streams.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <utility>

namespace libhvd {
namespace {

// A connection of this rank that is to be made.
struct Planned {
  int lane;
  int channel;
  int host;  // the other one
  MeshConnection connection;
};

}  // namespace

Result<StreamLanes> join_streams(HostListener host_listener, const std::vector<HostEntry>& ranks,
                                 const std::vector<int>& hosts, int own, const JobSecret& secret,
                                 int lanes, const Deadline& deadline,
                                 std::optional<int>* unreached) {
  const StreamPlan plan(hosts);
  const int own_host = hosts[static_cast<std::size_t>(own)];
  // The rank of the later host connects. From the number the other rank knows who it is, and for
  // which lane and channel.
  const auto number = [&](int connecting, int lane, int channel) {
    return 1 + (connecting * kLanes + lane) * plan.channels() + channel;
  };
  JobSecret numbered = secret;
  numbered.size = number(static_cast<int>(ranks.size()), 0, 0);
  std::vector<Planned> all;
  std::vector<MeshConnection> out;
  std::vector<MeshConnection> in;
  const auto add = [&](int lane, int channel, int host) {
    const int peer = plan.server(channel, host);
    const int connecting = host < own_host ? own : peer;
    const MeshConnection connection{ranks[static_cast<std::size_t>(peer)],
                                    number(connecting, lane, channel)};
    all.push_back({lane, channel, host, connection});
    (host < own_host ? out : in).push_back(connection);
  };
  const auto add_all = [&](int first_host, int end_host) {
    for (int lane = 0; lane < lanes; ++lane) {
      for (int channel = 0; channel < plan.channels(); ++channel) {
        if (plan.server(channel, own_host) != own) continue;
        for (int host = first_host; host < end_host; ++host) add(lane, channel, host);
      }
    }
  };
  add_all(0, own_host);  // in the order in which connect_mesh() returns them
  add_all(own_host + 1, plan.hosts());
  HVD_TRY(auto sockets, connect_mesh(std::move(host_listener), ranks[static_cast<std::size_t>(own)],
                                     out, in, numbered, deadline, unreached));
  std::array<std::vector<StreamEnd>, kLanes> ends;
  for (std::size_t i = 0; i < all.size(); ++i) {
    ends[static_cast<std::size_t>(all[i].lane)].push_back(
        {all[i].channel, all[i].host, all[i].connection.peer.leader, std::move(sockets[i])});
  }
  StreamLanes streams;
  for (std::size_t lane = 0; lane < static_cast<std::size_t>(lanes); ++lane)
    streams[lane] = std::make_shared<SocketStreams>(plan, std::move(ends[lane]));
  return streams;
}

Result<StreamLanes> make_mpi_streams(const MpiLibrary& mpi, const std::vector<int>& hosts,
                                     const std::vector<int>& numbers, int own, int lanes,
                                     int first_tag) {
  const StreamPlan plan(hosts);
  HVD_CHECK(mpi.reserve_tags(first_tag, lanes * plan.channels()));
  const int own_host = hosts[static_cast<std::size_t>(own)];
  StreamLanes streams;
  for (int lane = 0; lane < lanes; ++lane) {
    std::vector<MpiEnd> ends;
    for (int channel = 0; channel < plan.channels(); ++channel) {
      if (plan.server(channel, own_host) != own) continue;
      for (int host = 0; host < plan.hosts(); ++host) {
        if (host == own_host) continue;
        const int peer = plan.server(channel, host);
        ends.push_back({channel, host, peer, numbers[static_cast<std::size_t>(peer)],
                        first_tag + lane * plan.channels() + channel});
      }
    }
    HVD_TRY(streams[static_cast<std::size_t>(lane)], MpiStreams::start(plan, mpi, ends));
  }
  return streams;
}

}  // namespace libhvd
