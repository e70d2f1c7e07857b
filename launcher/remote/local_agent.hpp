// The agent on this host: forked, not executed, so that it starts in a fraction of a millisecond.
#pragma once

#include "agent/guard.hpp"
#include "base/fd.hpp"

#include <sys/types.h>

namespace hvdrun {

struct LocalAgent {
  pid_t guard = 0;  // our child; it ends last of all that belongs to the job
  LinkEnd link;
};

// Must be called while this process has one thread. The agent starts with a copy of our memory and
// none of our descriptors but 0, 1, 2.
Result<LocalAgent> start_local_agent(const AgentOptions& options);

}  // namespace hvdrun
