#include "channels/login_gate.hpp"

#include <utility>

namespace hvdrun {

LoginGate::Place& LoginGate::Place::operator=(Place&& other) noexcept {
  leave();
  gate_ = std::move(other.gate_);
  server_ = std::move(other.server_);
  number_ = other.number_;
  return *this;
}

void LoginGate::Place::leave() {
  const auto gate = std::exchange(gate_, nullptr);
  if (!gate) return;
  {
    const std::lock_guard lock(gate->mutex_);
    auto& places = gate->places_[server_];
    places.erase(number_);
    if (places.empty()) gate->places_.erase(server_);
  }
  gate->changed_.notify_all();
}

LoginGate::Place LoginGate::enter(const std::string& server, const std::function<bool()>& is_cut) {
  std::unique_lock lock(mutex_);
  while (!is_cut()) {
    auto& places = places_[server];
    const auto now = Clock::now();
    std::erase_if(places, [&](const auto& place) { return now - place.second >= kLongest; });
    if (places.size() >= kMost) {
      changed_.wait_until(lock, places.begin()->second + kLongest);  // numbers are in order of time
      continue;
    }
    Place place;
    place.gate_ = shared_from_this();
    place.server_ = server;
    place.number_ = next_++;
    places.emplace(place.number_, now);
    return place;
  }
  return {};
}

void LoginGate::wake() {
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

}  // namespace hvdrun
