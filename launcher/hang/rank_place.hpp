// What a rank does, in words that users understand: where in their program it is, and what it waits
// for. From a look at its process. Pure functions, for any thread.
#pragma once

#include "look/process_look.hpp"

#include <cstdint>
#include <string>

namespace hvdrun {

enum class Doing {
  unknown,        // nothing could be read of it
  stopped,        // by a signal
  traced,         // a debugger has stopped it
  frozen,         // by its control group
  in_collective,  // also one that exchanges with one other rank
  waits_for_gpu,  // which may compute, or wait in a collective of its own
  waits,          // for something that is no rank: a file, a pipe, a lock
  computes,
};

struct RankPlace {
  Doing doing = Doing::unknown;
  std::string collective;      // the function: "all_reduce"; empty: it is in none
  bool pairwise = false;       // it exchanges with one other rank
  bool in_libhvd = false;      // the collective is libhvd's
  std::string called_from;     // the user's line that called the collective: "train.py:88"
  std::string where;           // the user's innermost line: "loader.py:214 read()"
  std::string state;           // "waiting for fd 5: /data/shard-7 (nfs) for 312 s"
  std::string note;            // what is unusual besides: "its child 4711 (python3) has ended"
  bool moves = false;          // between the two looks
  bool naps = false;           // it slept several times between them
  double waiting_seconds = 0;  // how long its thread has not been on a processor
};

// Returns the thread that shows what the process does: the main one, or the one that it waits for.
// Null if there is none.
const ThreadLook* key_thread(const ProcessLook& look);

RankPlace place_of(const ProcessLook& look);

// Returns "3.1 s", "312 s".
std::string wait_time_text(double seconds);

// Returns "81,245".
std::string with_commas(std::uint64_t number);

// Returns "loader.py:214 read()" for a frame.
std::string place_text(const LookFrame& frame);

}  // namespace hvdrun
