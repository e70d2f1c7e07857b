// Wakes a host's bridge out of poll(2) when a rank of the host has published something. It is a
// FIFO beside the segment's file, which every rank of the host has open, or an eventfd for ranks
// that are threads. Any thread may ring it. The bytes carry no meaning.
#pragma once

#include "base/error.hpp"
#include "common/fd.hpp"

#include <string>
#include <utility>

namespace libhvd {

class Doorbell {
 public:
  // Makes one for the threads of this process. Error: the system gives no eventfd.
  static Result<Doorbell> inside();

  // Makes a new FIFO (0600); the caller must remove its name. Error: it cannot be made.
  static Result<Doorbell> create(const std::string& path);
  // Opens another rank's FIFO. Error: it cannot be opened.
  static Result<Doorbell> open(const std::string& path);

  Doorbell() = default;  // empty
  explicit operator bool() const { return static_cast<bool>(fd_); }

  // Rings it. Never waits: a full FIFO has been rung already. Does nothing if there is no bridge
  // any more: this process too has the reading end open, so there is no SIGPIPE.
  void ring() const;

  // Readable after a ring.
  int fd() const { return fd_.get(); }
  void drain() const;

 private:
  explicit Doorbell(Fd fd) : fd_(std::move(fd)) {}

  Fd fd_;
};

}  // namespace libhvd
