// Finds ranks that have printed an exception of Python and do not end. A rank of mpi4py waits in
// MPI_Finalize then, for others that wait for it in a collective.
//
// The attempt owns it. Loop thread only; nothing fails. It has a timer only after a rank has
// written to stderr, so a job that is silent there costs nothing.
#pragma once

#include "base/event_loop.hpp"
#include "job/rank_table.hpp"
#include "output/stream.hpp"

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace hvdrun {

class ExceptionWatch {
 public:
  // Returns the last lines that a rank has written to stderr.
  using LastLines = std::function<std::vector<std::string>(int rank)>;

  // `warn` gets a line for the user. The references must outlive it.
  ExceptionWatch(const EventLoop& loop, const RankTable& table, LastLines last_stderr,
                 std::function<void(const std::string&)> warn);

  // Takes note that a rank has printed something.
  void on_output(int rank, Stream stream);
  // Ends it: the job is being stopped.
  void end() { timer_.cancel(); }

 private:
  void look();

  const RankTable& table_;
  const LastLines last_stderr_;
  const std::function<void(const std::string&)> warn_;
  std::set<int> recent_;    // have printed since the last look
  std::set<int> suspects_;  // their last line was an exception at the last look
  std::set<int> named_;     // the user knows of them
  Timer timer_;
};

}  // namespace hvdrun
