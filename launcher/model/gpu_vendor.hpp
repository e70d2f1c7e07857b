// A kind of GPU: how GPUs of one vendor are found, chosen for a rank and watched. Each vendor is a
// row of the table in gpus/gpu_vendors.hpp.
//
// A plain value that does not change, for any thread. `list` runs on the thread that reads the
// inventory. `watch` and the GpuWatch belong to the agent's thread for GPUs, which a GPU with a
// fault may block. Nothing returns errors: a machine without a driver is an ordinary one.
#pragma once

#include "base/environment.hpp"
#include "model/placement.hpp"
#include "model/report.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// The end of a note that names a lost GPU. Where ranks lack GPUs, the error repeats such notes.
inline constexpr std::string_view kLostGpu =
    " is lost, so no rank uses it: the kernel's log says why (dmesg)";

// The GPUs that a program would see.
struct GpuList {
  std::vector<Gpu> gpus;       // without what is near them
  bool needs_list = false;     // see HostInventory::gpus_need_list
  std::string single_because;  // see HostInventory::single_because
  bool has_driver = false;     // the vendor's driver runs; otherwise a variable names the GPUs
  std::string source;          // see HostInventory::gpu_source; says why if there are none
  std::vector<std::string> notes;
};

// A process that computes on a GPU, by its number in the caller's PID namespace.
struct GpuProcess {
  int pid = 0;
  std::optional<std::uint64_t> memory_bytes;  // on that GPU
};

// Samples of how GPUs are used.
class GpuWatch {
 public:
  virtual ~GpuWatch() = default;

  // Takes one sample of each GPU.
  virtual void look() = 0;
  // Returns averages and peaks of the samples so far, in the order of the names. Names that are not
  // known are left out. What the driver does not say has no value.
  virtual std::vector<GpuUse> uses() const = 0;
  // Returns the processes of each GPU in the last sample, in the order of uses().
  virtual const std::vector<std::vector<GpuProcess>>& processes() const = 0;
};

struct GpuVendor {
  std::string name;  // "NVIDIA"
  GpuVariables variables;

  // Returns the GPUs that a program with this environment would see, in the order in which the
  // vendor's runtime numbers them. Is called once for each reading of a machine.
  std::function<GpuList(const Environment&)> list;

  // Watches GPUs, given by watched_name(). Returns null if none of them can be watched.
  std::function<std::unique_ptr<GpuWatch>(const std::vector<std::string>& names)> watch;
};

}  // namespace hvdrun
