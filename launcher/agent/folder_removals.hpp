// Reports that something in a folder was removed or renamed: the kernel sends this thread a signal
// (F_NOTIFY of fcntl(2)). As with pipe_writes.hpp nothing has to be waited for when this process
// ends, and no other program of the user has less because of it.
//
// An empty folder that is removed is not reported. One thread makes it and calls it. Nothing fails:
// a kernel without CONFIG_DNOTIFY reports nothing.
#pragma once

#include "base/event_loop.hpp"

#include <functional>

namespace hvdrun {

class FolderRemovals {
 public:
  // Returns the signal that it reads. Nothing else in this process may.
  static int signal();

  FolderRemovals(const EventLoop& loop, std::function<void()> callback);
  FolderRemovals(const FolderRemovals&) = delete;
  FolderRemovals& operator=(const FolderRemovals&) = delete;

  // Watches the open folder until its descriptor is closed.
  static void watch(int folder);

 private:
  SignalWatch signals_;
};

}  // namespace hvdrun
