#include "session/shown_collectives.hpp"

#include <algorithm>

namespace libhvd {

void ShownCollectives::begin_showing(std::string_view kind, const char* name) {
  start_ns_ = clock_.now_ns();
  page_.begin_collective(kind, name, start_ns_);
}

void ShownCollectives::begin_showing_call() {
  if (!take_page()) return;
  call_.shown = true;
  begin_showing(call_.kind, call_.name);
}

// A call that is shown only when it waits has begun a few microseconds before.
void ShownCollectives::end_showing_call(bool completed, std::uint64_t waited_ns) {
  const std::uint64_t shown_ns = clock_.now_ns() - start_ns_;
  const std::uint64_t lasted_ns =
      waited_ns == 0 ? shown_ns * call_.weight : std::max(shown_ns, waited_ns);
  page_.end_collective(completed, lasted_ns, waited_ns);
  call_.shown = false;
  give_page();
}

void ShownCollectives::end_wait(bool completed) {
  const std::uint64_t waited = clock_.now_ns() - start_ns_;
  page_.end_collective(completed, waited, waited);
  give_page();
}

}  // namespace libhvd
