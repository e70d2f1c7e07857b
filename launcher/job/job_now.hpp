// What a job does at one moment, put together from what its attempt knows and its agents have
// answered. A pure function for the loop thread.
#pragma once

#include "job/attempt.hpp"
#include "model/job_now.hpp"
#include "protocol/messages.hpp"

#include <cstddef>
#include <map>

namespace hvdrun {

// Sets hosts, ranks and waits. `answers`: by host index, of this attempt.
void describe_attempt(const Attempt& attempt, const std::map<std::size_t, StatesMessage>& answers,
                      JobNow& now);

}  // namespace hvdrun
