#include "gpus/nvidia/visible_gpus.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace hvdrun {
namespace {

enum class Form { ordinal, gpu_uuid, mig, none };

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\r";
  const auto first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::vector<std::string_view> split_entries(std::string_view text) {
  std::vector<std::string_view> entries;
  for (;;) {
    const auto comma = text.find(',');
    entries.push_back(trim(text.substr(0, comma)));
    if (comma == std::string_view::npos) return entries;
    text.remove_prefix(comma + 1);
  }
}

std::optional<int> ordinal_of(std::string_view entry) {
  int ordinal = 0;
  const auto [stop, error] = std::from_chars(entry.data(), entry.data() + entry.size(), ordinal);
  if (error != std::errc() || ordinal < 0) return std::nullopt;
  return ordinal;
}

Form form_of(std::string_view entry) {
  if (entry.starts_with("GPU-")) return Form::gpu_uuid;
  if (entry.starts_with("MIG-")) return Form::mig;
  return ordinal_of(entry) ? Form::ordinal : Form::none;
}

bool any_mig(const NvmlScan& nvml) {
  return std::any_of(nvml.gpus.begin(), nvml.gpus.end(),
                     [](const NvmlGpu& gpu) { return gpu.mig_enabled; });
}

bool all_of_one_kind(const NvmlScan& nvml) {
  return std::all_of(nvml.gpus.begin(), nvml.gpus.end(),
                     [&](const NvmlGpu& gpu) { return gpu.name == nvml.gpus.front().name; });
}

Gpu described_as(std::string visible, const NvmlGpu& gpu) {
  Gpu described;
  described.visible = std::move(visible);
  described.uuid = gpu.uuid;
  described.pci_address = gpu.pci_address;
  described.name = gpu.name;
  described.memory_bytes = gpu.memory_bytes;
  return described;
}

Gpu described_as(std::string visible, const NvmlGpu& parent, const NvmlMigDevice& mig) {
  Gpu described = described_as(std::move(visible), parent);
  described.uuid = mig.uuid;
  described.name = mig.name;
  described.memory_bytes = mig.memory_bytes;
  return described;
}

Gpu undescribed(std::string_view visible) {
  Gpu gpu;
  gpu.visible = visible;
  return gpu;
}

// The device of one entry, and a key that is equal for two entries with the same device. nullopt if
// the entry names no device here; CUDA stops at such an entry.
using Match = std::optional<std::pair<Gpu, std::string>>;

Match match_ordinal(std::string_view entry, bool pci_bus_order, const NvmlScan& nvml) {
  const auto ordinal = ordinal_of(entry);
  if (!ordinal) return std::nullopt;
  const std::string key = std::to_string(*ordinal);
  // With MIG, CUDA numbers instances, in an order that is not documented.
  if (!nvml.loaded || any_mig(nvml)) return {{undescribed(entry), key}};
  if (static_cast<std::size_t>(*ordinal) >= nvml.gpus.size()) return std::nullopt;
  if (!pci_bus_order && !all_of_one_kind(nvml)) return {{undescribed(entry), key}};
  return {{described_as(std::string(entry), nvml.gpus[static_cast<std::size_t>(*ordinal)]), key}};
}

Match match_gpu_uuid(std::string_view entry, const NvmlScan& nvml) {
  if (!nvml.loaded) return {{undescribed(entry), std::string(entry)}};
  const NvmlGpu* found = nullptr;
  for (const auto& gpu : nvml.gpus) {
    if (!gpu.uuid.starts_with(entry)) continue;
    if (found != nullptr) return std::nullopt;  // several GPUs begin with it
    found = &gpu;
  }
  if (found == nullptr) return std::nullopt;
  return {{described_as(std::string(entry), *found), found->uuid}};
}

Match match_mig(std::string_view entry, const NvmlScan& nvml) {
  const std::string text(entry);
  if (!nvml.loaded) return {{undescribed(entry), text}};
  const auto slash = entry.find('/');
  for (const auto& gpu : nvml.gpus) {
    if (slash != std::string_view::npos && "MIG-" + gpu.uuid == entry.substr(0, slash))
      return {{described_as(text, gpu), text}};
    for (const auto& mig : gpu.mig_devices)
      if (mig.uuid == entry) return {{described_as(text, gpu, mig), text}};
  }
  return std::nullopt;
}

Match match_entry(std::string_view entry, Form form, bool pci_bus_order, const NvmlScan& nvml) {
  if (form_of(entry) != form) return std::nullopt;
  switch (form) {
    case Form::ordinal:
      return match_ordinal(entry, pci_bus_order, nvml);
    case Form::gpu_uuid:
      return match_gpu_uuid(entry, nvml);
    case Form::mig:
      return match_mig(entry, nvml);
    case Form::none:
      break;
  }
  return std::nullopt;
}

// Returns whether the user means "no GPU" or "no more GPUs" by the entry, so that no note is
// needed.
bool is_meant_as_end(std::string_view entry) {
  return entry.empty() || entry == "-1" || entry == "NoDevFiles";
}

GpuList from_variable(const std::string& value, bool pci_bus_order, const NvmlScan& nvml) {
  GpuList list;
  list.source = fmt::format("CUDA_VISIBLE_DEVICES={}", value);
  const auto entries = split_entries(value);
  const Form form = form_of(entries.front());
  std::vector<std::string> seen;
  for (const auto entry : entries) {
    auto match = match_entry(entry, form, pci_bus_order, nvml);
    if (!match) {
      if (!is_meant_as_end(entry))
        list.notes.push_back(
            fmt::format("CUDA_VISIBLE_DEVICES={}: \"{}\" names no GPU here, and CUDA stops at it",
                        value, entry));
      break;
    }
    if (std::find(seen.begin(), seen.end(), match->second) != seen.end()) {
      list.notes.push_back(
          fmt::format("CUDA_VISIBLE_DEVICES={}: \"{}\" names a GPU for the second time, and CUDA "
                      "then sees none",
                      value, entry));
      list.gpus.clear();
      break;
    }
    seen.push_back(std::move(match->second));
    list.gpus.push_back(std::move(match->first));
  }
  return list;
}

GpuList from_mig(const NvmlScan& nvml) {
  GpuList list;
  list.source = "NVML";
  for (const auto& gpu : nvml.gpus) {
    if (!gpu.mig_enabled) list.gpus.push_back(described_as(gpu.uuid, gpu));
    for (const auto& mig : gpu.mig_devices) list.gpus.push_back(described_as(mig.uuid, gpu, mig));
    if (gpu.mig_enabled && gpu.mig_devices.empty())
      list.notes.push_back(
          fmt::format("the GPU at {} is in MIG mode without a MIG device, so CUDA cannot use it",
                      gpu.pci_address));
  }
  list.needs_list = !list.gpus.empty();
  return list;
}

GpuList from_nvml(bool pci_bus_order, const NvmlScan& nvml, bool other_order) {
  if (any_mig(nvml)) return from_mig(nvml);
  GpuList list;
  list.source = "NVML";
  list.needs_list = !pci_bus_order && !all_of_one_kind(nvml);
  for (const auto& gpu : nvml.gpus)
    list.gpus.push_back(described_as(
        list.needs_list && other_order ? gpu.uuid : std::to_string(list.gpus.size()), gpu));
  return list;
}

void name_lost(const NvmlScan& nvml, GpuList& list) {
  for (const int index : nvml.lost)
    list.notes.push_back(fmt::format("GPU {} of NVML{}", index, kLostGpu));
}

// Marks MIG devices. NVML finds one by its own name, not by its GPU's UUID.
void mark_mig(GpuList& list) {
  for (auto& gpu : list.gpus) {
    if (form_of(gpu.visible) != Form::mig) continue;
    if (gpu.visible != gpu.uuid) gpu.watched_as = gpu.visible;
    list.single_because = "CUDA shows a process one MIG device";
  }
}

}  // namespace

bool names_devices(const std::optional<std::string>& cuda_visible_devices) {
  return !cuda_visible_devices ||
         form_of(split_entries(*cuda_visible_devices).front()) != Form::none;
}

GpuList visible_gpus(const std::optional<std::string>& cuda_visible_devices, bool pci_bus_order,
                     const NvmlScan& nvml, bool other_order) {
  GpuList list;
  if (cuda_visible_devices || nvml.loaded) {
    list = cuda_visible_devices ? from_variable(*cuda_visible_devices, pci_bus_order, nvml)
                                : from_nvml(pci_bus_order, nvml, other_order);
    name_lost(nvml, list);
    mark_mig(list);
    list.has_driver = nvml.loaded;
    return list;
  }
  list.source = nvml.problem;
  if (nvml.broken) list.notes.push_back(nvml.problem + "; no GPU is used");
  return list;
}

}  // namespace hvdrun
