// MASTER_PORT, kept for the program: bound with SO_REUSEADDR but not listening, so that nobody else
// is given it while a rank can still listen there (torch's TCPStore does).
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"

namespace hvdrun {

struct MasterPort {
  Fd socket;  // keep it until the job ends
  int number = 0;
};

Result<MasterPort> hold_master_port();

}  // namespace hvdrun
