#include "api/mpi_mesh.hpp"

#include "transport/mpi_streams.hpp"

namespace libhvd {

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
