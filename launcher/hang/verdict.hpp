// The verdict on a job that seems to hang: which rank the others wait for, and what it does. From
// what ranks report in their status pages, and from looks at their processes. Pure functions and
// values, for any thread.
//
// A job that is only slow gets no false verdict: HangKind::hangs is given only if what is waited
// for does not move, and the user learns what was seen, not what it means.
#pragma once

#include "hang/hang_facts.hpp"
#include "model/hang_report.hpp"

namespace hvdrun {

HangReport judge_hang(const HangFacts& facts);

}  // namespace hvdrun
