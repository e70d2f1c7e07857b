// A copy of the state, or of a rank's share of it, as it will lie in the file. The memory is kept
// and used again, so that only the first save pays for getting its pages.
//
// One owner, one thread; whoever writes the copy reads it only until the next take().
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "checkpoint/format.hpp"
#include "checkpoint/item.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <thread>

namespace libhvd::checkpoint {

class Snapshot {
 public:
  // Copies bytes begin … end of the data; `parts` is lay_out() of the items. Error: no memory.
  Outcome take(std::span<const Item> items, std::span<const Part> parts, std::uint64_t begin,
               std::uint64_t end);

  // Of byte `begin`; on the boundary of a page.
  const std::byte* data() const { return memory_.data(); }

 private:
  Mapping memory_;
};

// One piece of work at a time on a thread of its own, which gives way to training: a low
// priority, no signals. It inherits the cores that its starter is bound to.
//
// One owner; start() and wait() from one thread at a time.

class Background {
 public:
  Background() = default;
  ~Background() { static_cast<void>(wait()); }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // Only when nothing runs: wait() first. What `work` throws is an error too. Error: no thread.
  Outcome start(std::function<Outcome()> work);

  // The outcome of what was started last; asked again, or when nothing was: Done.
  Outcome wait();

  bool running() const { return thread_.joinable(); }

 private:
  std::thread thread_;
  std::optional<Error> error_;  // the thread's, until it is joined
};

}  // namespace libhvd::checkpoint
