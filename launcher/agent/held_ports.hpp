// TCP ports that the agent keeps for its ranks until they listen there. Values that own a socket;
// callable on any thread. Error: a socket cannot be made or bound.
#pragma once

#include "base/result.hpp"
#include "common/fd.hpp"
#include "protocol/messages.hpp"

#include <string>
#include <vector>

namespace hvdrun {

// A TCP port kept for a rank. Its socket is bound with SO_REUSEADDR but does not listen. So the
// kernel gives the port to no other process, and a rank can still listen there, as torch's TCPStore
// and libhvd's rendezvous do.
struct HeldPort {
  Fd socket;  // keep it until the job ends
  int number = 0;
};

// This many ports after MASTER_PORT are left to the program, which may use them without asking:
// Megatron-LM's in-process restart uses the next two. libhvd's rendezvous may fall back to as many
// ports after its own.
inline constexpr int kPortsLeftToProgram = 64;

// Holds `count` ports. All but the first keep away from MASTER_PORT, so that neither they nor the
// ports after them are among those that are left to the program. MASTER_PORT is `master_port`, or
// the first of the ports if that is 0.
Result<std::vector<HeldPort>> hold_ports(int count, int master_port);

// Returns a warning if rank 0 starts here with a MASTER_PORT of the user's, and another process
// has that port; otherwise "".
std::string taken_port_warning(const LaunchMessage& job, const std::vector<HeldPort>& held);

std::vector<int> numbers_of(const std::vector<HeldPort>& ports);

}  // namespace hvdrun
