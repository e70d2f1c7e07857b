// Limits how many logins of a launch go through one ssh server at a time: a jump host, or a host
// that has several names. sshd closes connections at random once ten have not logged in yet
// (MaxStartups in sshd_config(5)).
//
// It also knows how long this process stood still, which no login is to be blamed for.
//
// The launch owns it and shares it with the threads that log in; any thread may call it. It cannot
// fail.
#pragma once

#include "base/patience.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace hvdrun {

class LoginGate : public std::enable_shared_from_this<LoginGate> {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::size_t kMost = 8;
  // A login that takes longer than this is no longer counted: it waits for another host, which
  // the server connects to.
  static constexpr std::chrono::seconds kLongest{5};

  // A login's place at a server. Its destructor gives the place back.
  class Place {
   public:
    Place() = default;
    ~Place() { leave(); }
    Place(Place&& other) noexcept = default;
    Place& operator=(Place&& other) noexcept;

    void leave();

   private:
    friend class LoginGate;
    std::shared_ptr<LoginGate> gate_;  // null: no place
    std::string server_;
    std::uint64_t number_ = 0;
  };

  // Waits for a place at the server. Returns no place if `is_cut` returns true: the caller then has
  // to end. `is_cut` is called with the gate locked.
  Place enter(const std::string& server, const std::function<bool()>& is_cut);

  // Makes all that wait call `is_cut`.
  void wake();

  Standstill& standstill() { return standstill_; }

 private:
  Standstill standstill_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // By server and number: since when.
  std::map<std::string, std::map<std::uint64_t, Clock::time_point>> places_;
  std::uint64_t next_ = 0;
};

}  // namespace hvdrun
