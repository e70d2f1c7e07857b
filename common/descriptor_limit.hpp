// How many files this process may have open (getrlimit(2), RLIMIT_NOFILE).
#pragma once

#include <cstddef>

namespace common {

// Makes room for `more` open files besides those that are open now: raises the soft limit if it is
// too low, at most to the hard limit. Ignores errors: if there is still no room, opening a file
// fails with EMFILE, as without this. Any thread.
void make_room_for_descriptors(std::size_t more);

}  // namespace common
