// A double of libnvidia-ml.so.1 for machines without a GPU. It has the functions of NVML that
// hvdrun uses, and its answers come from environment variables. Tests put its folder (lib/doubles
// of the build) into LD_LIBRARY_PATH.
//
//   HVD_FAKE_NVML        devices, separated by ';', in PCI order: "uuid,pci,name,memory", as in
//                        "GPU-1234,0000:17:00.0,NVIDIA H200,150754820096". A uuid that begins with
//                        "MIG-" is a MIG device of the GPU before it (pci stays empty), which is
//                        then in MIG mode; so is a GPU with the fifth field "mig". One with the
//                        fifth field "lost" has no handle. Unset: no GPU.
//                        "busy PERCENT USED" in the fifth field: its utilization and the memory in
//                        use; 0 and 0 by default. MIG devices report no utilization.
//                        After that "heat C", "power MILLIWATTS" and "clocks BITS" (in hexadecimal)
//                        may follow. Each is a list such as "71/68": each query returns the next
//                        value, and starts again after the last. Without a list, the query returns
//                        NOT_SUPPORTED.
//   HVD_FAKE_NVML_PIDS   file with the compute processes, one per line: "PID [BYTES [UUID]]". -1
//                        bytes: not available. Without a UUID, the process uses each GPU. Unset:
//                        none.
//   HVD_FAKE_NVML_ERROR  nvmlInit_v2 fails with this number.
//   HVD_FAKE_NVML_REFUSE functions that fail, with their errors: "nvmlDeviceGetMemoryInfo=4 …".
//   HVD_FAKE_NVML_LOG    a file that gets a line for each query of a device's utilization: its UUID
//                        and the calling thread.
//   HVD_FAKE_NVML_HANG   the number of the query of utilization that never returns.
//
// Compiled with HVD_OLD_DRIVER, it lacks the functions that driver 450 lacks; with HVD_NEW_DRIVER,
// the deprecated ones.
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

#define HVD_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kSuccess = 0;
constexpr int kInvalidArgument = 2;
constexpr int kNotSupported = 3;
constexpr int kNotFound = 6;
constexpr int kInsufficientSize = 7;
constexpr int kGpuIsLost = 15;
constexpr int kVersionMismatch = 25;

// Numbers of which each query returns the next. After the last it starts again.
struct Values {
  std::vector<unsigned long long> all;
  std::size_t asked = 0;

  // Returns NOT_SUPPORTED if there are no numbers.
  template <class T>
  int next(T* value) {
    if (all.empty()) return kNotSupported;
    *value = static_cast<T>(all[asked++ % all.size()]);
    return kSuccess;
  }
};

struct Device {
  std::string uuid;
  std::string pci;
  std::string name;
  unsigned long long memory = 0;
  bool mig = false;
  bool lost = false;
  unsigned busy = 0;
  unsigned long long used = 0;
  Values heat;
  Values power;
  Values clocks;
  std::vector<Device> parts;
};

struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;
  unsigned pci_subsystem_id;
  char bus_id[32];
};

struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct Utilization {
  unsigned gpu;
  unsigned memory;
};

struct Process {
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance;
  unsigned compute_instance;
};

struct Temperature {
  unsigned version;
  int sensor;
  int celsius;
};

std::vector<Device> devices;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

Values read_values(const std::string& list, int base) {
  Values values;
  for (const auto& value : split(list, '/'))
    values.all.push_back(std::strtoull(value.c_str(), nullptr, base));
  return values;
}

// Reads a field such as "busy 75 40 heat 71/68 power 612000 clocks 4/0".
void read_load(const std::string& field, Device& device) {
  std::istringstream words(field);
  for (std::string word, list; words >> word;) {
    if (word == "busy") words >> device.busy >> device.used;
    if (word == "heat" && words >> list) device.heat = read_values(list, 10);
    if (word == "power" && words >> list) device.power = read_values(list, 10);
    if (word == "clocks" && words >> list) device.clocks = read_values(list, 16);
  }
}

Device read_device(const std::string& entry) {
  auto fields = split(entry, ',');
  fields.resize(5);
  Device device;
  device.uuid = fields[0];
  device.pci = fields[1];
  device.name = fields[2];
  device.memory = std::strtoull(fields[3].c_str(), nullptr, 10);
  device.mig = fields[4] == "mig";
  device.lost = fields[4] == "lost";
  read_load(fields[4], device);
  return device;
}

void read_devices() {
  devices.clear();
  const char* text = std::getenv("HVD_FAKE_NVML");
  for (const auto& entry : split(text == nullptr ? "" : text, ';')) {
    const Device device = read_device(entry);
    if (device.uuid.rfind("MIG-", 0) == 0 && !devices.empty()) {
      devices.back().mig = true;
      devices.back().parts.push_back(device);
    } else {
      devices.push_back(device);
    }
  }
}

// Returns the error that HVD_FAKE_NVML_REFUSE has for a function, or success.
int refusal(const std::string& question) {
  const char* const text = std::getenv("HVD_FAKE_NVML_REFUSE");
  for (const auto& entry : split(text == nullptr ? "" : text, ' '))
    if (entry.rfind(question + "=", 0) == 0) return std::atoi(entry.c_str() + question.size() + 1);
  return kSuccess;
}

int copy_text(const std::string& text, char* to, unsigned size) {
  if (text.size() >= size) return kInsufficientSize;
  std::memcpy(to, text.c_str(), text.size() + 1);
  return kSuccess;
}

}  // namespace

HVD_EXPORT int nvmlInit_v2() {
  if (const char* error = std::getenv("HVD_FAKE_NVML_ERROR")) return std::atoi(error);
  read_devices();
  return kSuccess;
}

HVD_EXPORT int nvmlShutdown() {
  return kSuccess;
}

HVD_EXPORT const char* nvmlErrorString(int error) {
  return error == 18 ? "Driver/library version mismatch" : "Unknown Error";
}

HVD_EXPORT int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(devices.size());
  return kSuccess;
}

HVD_EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device** device) {
  if (index >= devices.size()) return kInvalidArgument;
  if (devices[index].lost) return kGpuIsLost;
  *device = &devices[index];
  return kSuccess;
}

HVD_EXPORT int nvmlDeviceGetUUID(Device* device, char* uuid, unsigned size) {
  return copy_text(device->uuid, uuid, size);
}

HVD_EXPORT int nvmlDeviceGetName(Device* device, char* name, unsigned size) {
  return copy_text(device->name, name, size);
}

HVD_EXPORT int nvmlDeviceGetMemoryInfo(Device* device, Memory* memory) {
  if (const int error = refusal(__func__)) return error;
  *memory = {device->memory, device->memory - device->used, device->used};
  return kSuccess;
}

HVD_EXPORT int nvmlDeviceGetHandleByUUID(const char* uuid, Device** found) {
  for (auto& device : devices) {
    if (device.uuid == uuid) *found = &device;
    for (auto& part : device.parts)
      if (part.uuid == uuid) *found = &part;
    if (*found != nullptr) return kSuccess;
  }
  return kNotFound;
}

HVD_EXPORT int nvmlDeviceGetUtilizationRates(Device* device, Utilization* utilization) {
  if (const int error = refusal(__func__)) return error;
  if (device->uuid.rfind("MIG-", 0) == 0) return kNotSupported;
  *utilization = {device->busy, 0};
  if (const char* log = std::getenv("HVD_FAKE_NVML_LOG"))
    std::ofstream(log, std::ios::app) << device->uuid + " " + std::to_string(::gettid()) + "\n";
  static int asked = 0;
  const char* const hang = std::getenv("HVD_FAKE_NVML_HANG");
  for (++asked; hang != nullptr && asked == std::atoi(hang);) ::pause();
  return kSuccess;
}

#ifndef HVD_OLD_DRIVER
HVD_EXPORT int nvmlDeviceGetTemperatureV(Device* device, Temperature* temperature) {
  if (const int error = refusal(__func__)) return error;
  if (temperature->version != (sizeof(Temperature) | 1u << 24)) return kVersionMismatch;
  if (temperature->sensor != 0) return kInvalidArgument;
  return device->heat.next(&temperature->celsius);
}

HVD_EXPORT int nvmlDeviceGetCurrentClocksEventReasons(Device* device, unsigned long long* reasons) {
  if (const int error = refusal(__func__)) return error;
  return device->clocks.next(reasons);
}

HVD_EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(Device* device, unsigned* count,
                                                       Process* processes) {
  if (const int error = refusal(__func__)) return error;
  const char* const name = std::getenv("HVD_FAKE_NVML_PIDS");
  std::ifstream file(name == nullptr ? "" : name);
  std::vector<Process> found;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    Process process{0, 0, ~0u, ~0u};
    std::string bytes;
    std::string uuid;
    words >> process.pid >> bytes >> uuid;
    process.used_memory = std::strtoull(bytes.c_str(), nullptr, 10);
    if (uuid.empty() || uuid == device->uuid) found.push_back(process);
  }
  const bool fits = found.size() <= *count;
  *count = static_cast<unsigned>(found.size());
  if (!fits) return kInsufficientSize;
  std::copy(found.begin(), found.end(), processes);
  return kSuccess;
}
#endif

#ifndef HVD_NEW_DRIVER
HVD_EXPORT int nvmlDeviceGetTemperature(Device* device, int sensor, unsigned* celsius) {
  if (const int error = refusal(__func__)) return error;
  return sensor == 0 ? device->heat.next(celsius) : kInvalidArgument;
}

HVD_EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(Device* device,
                                                         unsigned long long* reasons) {
  if (const int error = refusal(__func__)) return error;
  return device->clocks.next(reasons);
}
#endif

HVD_EXPORT int nvmlDeviceGetPowerUsage(Device* device, unsigned* milliwatts) {
  if (const int error = refusal(__func__)) return error;
  return device->power.next(milliwatts);
}

HVD_EXPORT int nvmlDeviceGetPciInfo_v3(Device* device, PciInfo* pci) {
  *pci = {};
  if (std::sscanf(device->pci.c_str(), "%x:%x:%x", &pci->domain, &pci->bus, &pci->device) != 3)
    return kInvalidArgument;
  return kSuccess;
}

HVD_EXPORT int nvmlDeviceGetMigMode(Device* device, unsigned* current, unsigned* pending) {
  *current = *pending = device->mig ? 1 : 0;
  return kSuccess;
}

// As on real GPUs, the maximum is above the number of devices.
HVD_EXPORT int nvmlDeviceGetMaxMigDeviceCount(Device*, unsigned* count) {
  *count = 7;
  return kSuccess;
}

HVD_EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(Device* gpu, unsigned index, Device** device) {
  if (index >= gpu->parts.size()) return kNotFound;
  *device = &gpu->parts[index];
  return kSuccess;
}
