// How many files this process may have open (getrlimit(2), RLIMIT_NOFILE).
#pragma once

#include <cstddef>

namespace libhvd {

// Makes room for so many more than are open now: raises the soft limit where it is too low, as far
// as the hard one. Whoever needs more than that gets EMFILE when it comes to it, as without this.
void make_room_for_descriptors(std::size_t more);

}  // namespace libhvd
