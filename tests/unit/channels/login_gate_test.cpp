#include "channels/login_gate.hpp"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

bool never() {
  return false;
}

// Takes all places of a server.
std::vector<LoginGate::Place> fill(LoginGate& gate) {
  std::vector<LoginGate::Place> places;
  for (std::size_t i = 0; i < LoginGate::kMost; ++i) places.push_back(gate.enter("jump", never));
  return places;
}

// A login on a thread of its own.
class Login {
 public:
  explicit Login(LoginGate& gate)
      : gate_(gate), thread_([this] {
          const auto place = gate_.enter("jump", [this] {
            ++asked_;
            return cut_.load();
          });
          is_over_ = true;
        }) {}
  ~Login() { thread_.join(); }
  Login(const Login&) = delete;
  Login& operator=(const Login&) = delete;

  // Returns whether it waits for a place: then each wake() makes it ask again whether it is cut.
  bool waits() {
    while (asked_ < 3 && !is_over_) {
      gate_.wake();
      std::this_thread::yield();
    }
    return !is_over_;
  }
  void cut() { cut_ = true; }

 private:
  LoginGate& gate_;
  std::atomic<int> asked_ = 0;
  std::atomic<bool> cut_ = false;
  std::atomic<bool> is_over_ = false;
  std::thread thread_;  // last, since it uses all members above
};

TEST(LoginGate, AdmitsALoginWhenAnotherLeaves) {
  const auto gate = std::make_shared<LoginGate>();
  auto places = fill(*gate);
  Login next(*gate);
  EXPECT_TRUE(next.waits());
  const auto elsewhere = gate->enter("other", never);
  places.pop_back();
}

TEST(LoginGate, ReleasesACancelledLogin) {
  const auto gate = std::make_shared<LoginGate>();
  const auto places = fill(*gate);
  Login waiting(*gate);
  EXPECT_TRUE(waiting.waits());
  waiting.cut();
  gate->wake();
}

TEST(LoginGate, LivesUntilItsLastPlaceIsReleased) {
  auto gate = std::make_shared<LoginGate>();
  const std::weak_ptr<LoginGate> watched = gate;
  auto places = fill(*gate);
  gate.reset();
  EXPECT_FALSE(watched.expired());
  places.clear();
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace hvdrun
