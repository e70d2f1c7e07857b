// `hvdrun top` on a terminal: the whole screen, the keys, and the signals. For the main thread.
#pragma once

#include "base/result.hpp"
#include "commands/top_screen.hpp"
#include "control/control_client.hpp"

namespace hvdrun {

// Shows the job until it ends or the user quits. Returns the exit code. The terminal is as it was
// at every end, also if hvdrun is killed. Errors: the terminal cannot be used; the job answers with
// one.
Result<int> watch_job(ControlClient client, const TopView& view);

}  // namespace hvdrun
