// What wakes a host's bridge out of poll(2) when a rank of the host has something for it: a FIFO
// beside the segment's file that every rank there has open, or, for threads, an eventfd.
//
// Any thread may ring. Bytes carry no meaning.
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"

#include <string>

namespace libhvd {

class Bell {
 public:
  // For threads of one process.
  static Result<Bell> inside();

  // A new FIFO (0600); the caller removes its name.
  static Result<Bell> create(const std::string& path);
  static Result<Bell> open(const std::string& path);

  Bell() = default;  // none
  explicit operator bool() const { return static_cast<bool>(fd_); }

  // Never waits. Full is as good as rung. With no bridge left it does nothing: we ourselves have
  // the reading end open too, so there is no SIGPIPE.
  void ring() const;

  // Readable when rung.
  int fd() const { return fd_.get(); }
  void drain() const;

 private:
  explicit Bell(Fd fd) : fd_(std::move(fd)) {}

  Fd fd_;
};

}  // namespace libhvd
