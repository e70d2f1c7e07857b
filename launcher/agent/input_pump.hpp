// Carries input frames into one rank's stdin. Owned by the agent, on its loop's thread.
#pragma once

#include "base/event_loop.hpp"
#include "base/fd.hpp"

#include <functional>
#include <string>

namespace hvdrun {

class InputPump {
 public:
  // `on_written(bytes)` says how much has left us, so that the launcher may send more.
  InputPump(const EventLoop& loop, Fd pipe, std::function<void(std::size_t bytes)> on_written);

  void write(std::string_view bytes);
  void close();  // end of file for the rank, after what waits

 private:
  void write_out();

  Fd pipe_;
  FdEvent event_;
  std::function<void(std::size_t)> on_written_;
  std::string waiting_;
  bool closing_ = false;
};

}  // namespace hvdrun
