#include "agent/gpu_watch.hpp"

#include "hosts/nvml_watch.hpp"

#include <chrono>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace hvdrun {
namespace {

// A job that is shorter does not pay for NVML's start.
constexpr std::chrono::seconds kInterval{1};

}  // namespace

struct GpuWatch::Shared {
  std::mutex mutex;
  std::vector<GpuUse> uses;
};

void GpuWatch::start(std::vector<std::string> uuids) {
  if (uuids.empty()) return;
  shared_ = std::make_shared<Shared>();
  const auto look = [shared = shared_, uuids = std::move(uuids)] {
    std::this_thread::sleep_for(kInterval);
    const auto watch = NvmlWatch::open(uuids);
    if (watch == nullptr) return;
    for (;;) {
      watch->look();
      {
        const std::lock_guard lock(shared->mutex);
        shared->uses = watch->uses();
      }
      std::this_thread::sleep_for(kInterval);
    }
  };
  try {
    std::thread(look).detach();
  } catch (const std::system_error&) {  // no more threads: the job matters more
    shared_.reset();
  }
}

std::vector<GpuUse> GpuWatch::uses() const {
  if (shared_ == nullptr) return {};
  const std::lock_guard lock(shared_->mutex);
  return shared_->uses;
}

}  // namespace hvdrun
