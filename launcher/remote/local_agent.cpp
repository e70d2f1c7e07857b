#include "remote/local_agent.hpp"

#include "control/link.hpp"

#include <cerrno>
#include <utility>

#include <unistd.h>

namespace hvdrun {

Result<LocalAgent> start_local_agent(const AgentOptions& options) {
  HVD_TRY(LinkPair link, make_local_link());
  const pid_t guard = ::fork();
  if (guard < 0) return fail_errno("cannot start the agent on this host", errno);
  if (guard == 0) become_guard(options, std::move(link.agent));
  return LocalAgent{guard, std::move(link.launcher)};
}

}  // namespace hvdrun
