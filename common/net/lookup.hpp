// Looks up the names of hosts on a thread of its own, one after the other: a name server may take
// any time, and getaddrinfo(3) has no timeout.
//
// The object is for one thread. Its own thread outlives it while a name server keeps it waiting.
#pragma once

#include "common/net/address.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace common {

class Lookup {
 public:
  // Starts the thread. If that fails, no name has an address.
  explicit Lookup(std::vector<std::string> names);
  ~Lookup();
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;

  // Returns the addresses of the next name, with port 0. Returns none if it has none, or if no
  // answer comes in this time. Then there is no answer for the names after it either.
  std::vector<Address> next(std::chrono::milliseconds patience);

 private:
  struct Answers;

  std::shared_ptr<Answers> answers_;  // null: no answer comes any more
};

}  // namespace common
