// What salloc says on stderr, line by line. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace hvdrun {

struct SallocLine {
  enum class Kind {
    pending,  // the request is in the queue; `text` is the job's number
    granted,  // likewise
    revoked,  // the allocation is gone: time, scancel, a node; or it was given back before
    given_back,
    routine,  // what a user need not know
    other,    // errors, and what sites' plugins say; `text` is without salloc's own prefix
  };
  Kind kind = Kind::other;
  std::string text;
};

// The words are the same in SLURM 20.11 to 24.11.
SallocLine read_salloc_line(std::string_view line);

}  // namespace hvdrun
