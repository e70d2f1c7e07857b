#include "gpus/nvidia/nvml_watch.hpp"

#include "gpus/nvidia/nvml_library.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace hvdrun {
namespace {

// More processes than compute on one GPU; if there are more, NVML says how many.
constexpr std::size_t kUsualProcesses = 64;
constexpr std::size_t kNewProcesses = 16;  // that may start between two questions

constexpr std::array<std::pair<unsigned long long, ThrottleReason>, 6> kReasons{{
    {kNvmlPowerCap, ThrottleReason::power_cap},
    {kNvmlHwThermal, ThrottleReason::hardware_thermal},
    {kNvmlPowerBrake, ThrottleReason::power_brake},
    {kNvmlSwThermal, ThrottleReason::software_thermal},
    {kNvmlBoardLimit, ThrottleReason::board_limit},
    {kNvmlReliability, ThrottleReason::reliability},
}};

// Returns nullopt if the driver lacks the function or the function fails.
template <class Answer>
std::optional<Answer> ask(NvmlReturn (*function)(NvmlDevice, Answer*), NvmlDevice device) {
  Answer answer{};
  if (function == nullptr || function(device, &answer) != kNvmlSuccess) return std::nullopt;
  return answer;
}

std::optional<int> read_celsius(const NvmlLibrary& nvml, NvmlDevice device) {
  NvmlTemperature heat{kNvmlTemperatureVersion, kNvmlGpuSensor, 0};
  if (nvml.nvmlDeviceGetTemperatureV != nullptr &&
      nvml.nvmlDeviceGetTemperatureV(device, &heat) == kNvmlSuccess)
    return heat.celsius;
  unsigned celsius = 0;
  if (nvml.nvmlDeviceGetTemperature == nullptr ||
      nvml.nvmlDeviceGetTemperature(device, kNvmlGpuSensor, &celsius) != kNvmlSuccess)
    return std::nullopt;
  return static_cast<int>(celsius);
}

std::optional<unsigned long long> read_clock_reasons(const NvmlLibrary& nvml, NvmlDevice device) {
  const auto reasons = ask(nvml.nvmlDeviceGetCurrentClocksEventReasons, device);
  return reasons ? reasons : ask(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, device);
}

std::vector<GpuProcess> read_processes(const NvmlLibrary& nvml, NvmlDevice device) {
  const auto list = nvml.nvmlDeviceGetComputeRunningProcesses_v3;
  if (list == nullptr) return {};
  std::vector<NvmlProcess> found(kUsualProcesses);
  auto count = static_cast<unsigned>(found.size());
  auto status = list(device, &count, found.data());
  if (status == kNvmlInsufficientSize) {
    found.resize(count + kNewProcesses);
    count = static_cast<unsigned>(found.size());
    status = list(device, &count, found.data());
  }
  if (status != kNvmlSuccess) return {};
  std::vector<GpuProcess> processes;
  for (std::size_t i = 0; i < std::min<std::size_t>(count, found.size()); ++i) {
    const auto& [pid, used, gpu_instance, compute_instance] = found[i];
    // A process that computes has memory, so 0 is no answer.
    const bool is_known = used != 0 && used != kNvmlNotAvailable;
    processes.push_back({static_cast<int>(pid), is_known ? std::optional(used) : std::nullopt});
  }
  return processes;
}

template <class T>
void raise(std::optional<T>& peak, T value) {
  peak = std::max(peak.value_or(value), value);
}

// A mean that is nullopt until there is a value.
class Mean {
 public:
  void add(double value) { mean_ += (value - mean_) / static_cast<double>(++values_); }
  std::optional<double> value() const { return values_ > 0 ? std::optional(mean_) : std::nullopt; }

 private:
  double mean_ = 0;
  std::uint64_t values_ = 0;
};

}  // namespace

struct NvmlWatch::Device {
  NvmlDevice handle = nullptr;
  GpuUse use = {};  // but for its means
  Mean busy = {};
  Mean watts = {};

  void look(const NvmlLibrary& nvml);
  void add_clock_reasons(unsigned long long reasons);
};

void NvmlWatch::Device::look(const NvmlLibrary& nvml) {
  const auto memory = ask(nvml.nvmlDeviceGetMemoryInfo, handle);
  const auto utilization = ask(nvml.nvmlDeviceGetUtilizationRates, handle);
  const auto celsius = read_celsius(nvml, handle);
  const auto milliwatts = ask(nvml.nvmlDeviceGetPowerUsage, handle);
  const auto reasons = read_clock_reasons(nvml, handle);
  use.now = {};
  if (memory) use.now.memory_bytes = memory->used;
  if (utilization) use.now.busy_percent = utilization->gpu;
  use.now.celsius = celsius;
  if (milliwatts) use.now.watts = *milliwatts / 1e3;
  if (memory || utilization || celsius || milliwatts || reasons) ++use.samples;
  if (memory) raise<std::uint64_t>(use.peak_memory_bytes, memory->used);
  if (utilization) busy.add(utilization->gpu);
  if (celsius) raise(use.peak_celsius, *celsius);
  if (milliwatts) {
    watts.add(*milliwatts / 1e3);
    raise(use.peak_watts, *milliwatts / 1e3);
  }
  if (reasons) add_clock_reasons(*reasons);
}

void NvmlWatch::Device::add_clock_reasons(unsigned long long reasons) {
  if (!use.throttling) use.throttling.emplace();
  auto& [samples, seen] = *use.throttling;
  ++samples;
  const auto count = [&seen = seen](ThrottleReason reason) {
    ++seen[static_cast<std::size_t>(reason)];
  };
  for (const auto& [bit, reason] : kReasons)
    if ((reasons & bit) != 0) count(reason);
  // The driver sets this bit together with the exact reason, if it knows that.
  if ((reasons & kNvmlHwSlowdown) != 0 && (reasons & (kNvmlHwThermal | kNvmlPowerBrake)) == 0)
    count(ThrottleReason::hardware);
}

std::unique_ptr<NvmlWatch> NvmlWatch::open(const std::vector<std::string>& uuids,
                                           const std::string& library) {
  NvmlFailure failure;
  auto nvml = NvmlLibrary::open(library, failure);
  if (nvml == nullptr || nvml->nvmlDeviceGetHandleByUUID == nullptr) return nullptr;
  std::unique_ptr<NvmlWatch> watch(new NvmlWatch(std::move(nvml)));
  for (const auto& uuid : uuids) {
    NvmlDevice handle = nullptr;
    if (watch->library_->nvmlDeviceGetHandleByUUID(uuid.c_str(), &handle) != kNvmlSuccess) continue;
    auto& device = watch->devices_.emplace_back();
    device.handle = handle;
    device.use.uuid = uuid;
  }
  return watch->devices_.empty() ? nullptr : std::move(watch);
}

NvmlWatch::NvmlWatch(std::unique_ptr<NvmlLibrary> library) : library_(std::move(library)) {}

NvmlWatch::~NvmlWatch() = default;

void NvmlWatch::look() {
  processes_.clear();
  for (auto& device : devices_) {
    device.look(*library_);
    processes_.push_back(read_processes(*library_, device.handle));
  }
}

std::vector<GpuUse> NvmlWatch::uses() const {
  std::vector<GpuUse> uses;
  for (const auto& device : devices_) {
    auto& use = uses.emplace_back(device.use);
    use.busy_percent = device.busy.value();
    use.mean_watts = device.watts.value();
  }
  return uses;
}

}  // namespace hvdrun
