// What a rank has told, before its end, of why it ends.
#pragma once

#include <string>

namespace hvdrun {

struct RankFailure {
  std::string text;              // several lines, such as a traceback; empty: it has told nothing
  bool because_of_peer = false;  // only because another rank had died or left
  bool before_stop = false;      // before hvdrun sent it a signal
  double seconds_ago = 0;        // that long before its end was noticed
};

}  // namespace hvdrun
