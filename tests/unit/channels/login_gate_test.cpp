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

TEST(LoginGate, AdmitsALoginWhenAnotherLeaves) {
  const auto gate = std::make_shared<LoginGate>();
  auto places = fill(*gate);
  std::atomic<bool> is_in = false;
  std::thread next([&] {
    const auto place = gate->enter("jump", never);
    is_in = true;
  });
  const auto elsewhere = gate->enter("other", never);
  EXPECT_FALSE(is_in);
  places.pop_back();
  next.join();
  EXPECT_TRUE(is_in);
}

TEST(LoginGate, ReleasesACancelledLogin) {
  const auto gate = std::make_shared<LoginGate>();
  const auto places = fill(*gate);
  std::atomic<bool> cut = false;
  std::thread waiting([&] { gate->enter("jump", [&] { return cut.load(); }); });
  cut = true;
  gate->wake();
  waiting.join();
}

TEST(LoginGate, LivesUntilItsLastPlaceIsReleased) {
  auto gate = std::make_shared<LoginGate>();
  auto places = fill(*gate);
  gate.reset();
  places.clear();
}

}  // namespace
}  // namespace hvdrun
