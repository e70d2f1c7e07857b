// Reads the lines that salloc prints on stderr. A pure function, for any thread; it accepts any
// text.
#pragma once

#include <string>
#include <string_view>

namespace hvdrun {

struct SallocLine {
  enum class Kind {
    pending,  // the request is in the queue; `text` is the job's number
    granted,  // the job has its hosts; `text` is the job's number
    revoked,  // the allocation is gone: its time ran out, scancel, a node failed, or it was given
              // back before
    given_back,  // salloc gives the allocation back
    routine,     // a user need not know it
    other,       // errors, and output of a site's plugins; `text` has no prefix of salloc
  };
  Kind kind = Kind::other;
  std::string text;
};

// Reads one line. salloc's lines are the same in SLURM 20.11 to 24.11.
SallocLine read_salloc_line(std::string_view line);

}  // namespace hvdrun
