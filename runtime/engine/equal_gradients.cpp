#include "engine/equal_gradients.hpp"

#include "collective/call.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

namespace libhvd {
namespace {

constexpr std::size_t kStepBytes = EqualGradients::kNames * EqualGradients::kSampleBytes;
constexpr std::size_t kAllBytes = EqualGradients::kSteps * kStepBytes;

}  // namespace

void EqualGradients::look(const Request& request, std::uint64_t name) {
  const GradientBuffer& gradients = *request.gradients;
  const bool on_device = request.device_call != nullptr;
  if (samples_ == nullptr) {
    if (!on_device) on_host_.resize(kAllBytes);
    samples_ = on_device ? request.device_call->sample_memory(kAllBytes) : on_host_.data();
    looks_ = samples_ != nullptr;
    if (looks_) std::memset(samples_, 0, kAllBytes);  // another session may have used it
  }
  if (!looks_ || on_device == !on_host_.empty()) return;
  Watched* const watched = find(name);
  if (watched == nullptr || ++watched->calls > kSteps) return;
  const std::size_t bytes = std::min(gradients.bytes, kSampleBytes);
  if (bytes == 0) return;
  const auto* const from =
      static_cast<const std::byte*>(gradients.data) + (gradients.bytes - bytes) / 2;
  std::byte* const to = place_for(*watched);
  if (on_device) {
    request.device_call->sample(from, to, bytes);
    last_copied_ = request.device_call;
  } else {
    std::memcpy(to, from, bytes);
  }
}

// Returns null for a name that is not among the first ones of the first step.
EqualGradients::Watched* EqualGradients::find(std::uint64_t name) {
  const auto end = watched_.begin() + static_cast<std::ptrdiff_t>(names_);
  const auto found = std::find_if(watched_.begin(), end,
                                  [&](const Watched& watched) { return watched.name == name; });
  if (found != end) return &*found;
  if (names_ == kNames || watched_[0].calls > 1) return nullptr;
  watched_[names_] = {.name = name};
  return &watched_[names_++];
}

std::byte* EqualGradients::place_for(const Watched& watched) {
  const auto index = static_cast<std::size_t>(&watched - watched_.data());
  return samples_ + (watched.calls - 1) * kStepBytes + index * kSampleBytes;
}

std::uint64_t EqualGradients::send() {
  if (!looks_ || watched_[0].calls <= kSteps) return 0;
  if (last_copied_ && !last_copied_->has_happened()) return 0;  // a later round asks again
  looks_ = false;
  last_copied_.reset();
  return hash_of_steps();
}

// Returns 0 if the samples say nothing.
std::uint64_t EqualGradients::hash_of_steps() const {
  std::set<std::uint64_t> different;
  std::uint64_t all = 0;
  for (std::size_t step = 0; step < kSteps; ++step) {
    const std::byte* const begin = samples_ + step * kStepBytes;
    const std::size_t bytes = names_ * kSampleBytes;
    const std::uint64_t hash = hash_name({reinterpret_cast<const char*>(begin), bytes});
    different.insert(hash);
    all = (all ^ hash) * 0x9e3779b97f4a7c15u;
  }
  if (different.size() == 1) return 0;  // zeros, or the same in each step
  for (std::size_t i = 0; i < names_; ++i) all = (all ^ watched_[i].name) * 0x9e3779b97f4a7c15u;
  return all == 0 ? 1 : all;
}

bool EqualGradients::receive(std::uint64_t sent) {
  if (sent == 0) return false;
  if (senders_ == 0) first_sent_ = sent;
  differ_ = differ_ || sent != first_sent_;
  return ++senders_ == ranks_ && !differ_;
}

}  // namespace libhvd
