// What a job does at one moment, put together from what its attempt knows and its agents have
// answered. A pure function for the loop thread.
#pragma once

#include "job/attempt.hpp"
#include "job/question.hpp"
#include "model/job_now.hpp"

namespace hvdrun {

// Sets hosts, ranks and waits. `answers`: of this attempt.
void describe_attempt(const Attempt& attempt, const Answers& answers, JobNow& now);

}  // namespace hvdrun
