// Why a job hangs, as launcher/hang finds it. A plain value.
#pragma once

#include <string>
#include <vector>

namespace hvdrun {

enum class HangKind {
  unknown,  // nothing could be seen
  moves,    // no rank waits for another one for long
  slow,     // ranks wait for one that computes: it may be slow, or loop without an end
  hangs,    // ranks wait for one that does not move
};

struct HangReport {
  HangKind kind = HangKind::unknown;
  std::string text;                 // one line
  std::vector<int> blamed;          // the ranks that the others wait for, or that do not move
  std::vector<int> waiting;         // the ranks that wait for them
  std::string collective;           // that they wait in: "allreduce grad.3", "all_reduce"; or empty
  std::vector<std::string> stacks;  // of all ranks, in lines
  std::vector<std::string> problems;  // what could not be seen
};

}  // namespace hvdrun
