// A made-up vendor, as a row of the table: its cards have letters, no UUIDs and one order.
#pragma once

#include "model/gpu_vendor.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace hvdrun {

// Each card is half busy, and one process computes on it.
class AcmeWatch final : public GpuWatch {
 public:
  AcmeWatch(const std::vector<std::string>& names, int pid) : processes_(names.size(), {{pid, 7}}) {
    for (const auto& name : names) uses_.push_back({name});
  }
  void look() override {
    for (auto& use : uses_) {
      ++use.samples;
      use.busy_percent = 50;
    }
  }
  std::vector<GpuUse> uses() const override { return uses_; }
  const std::vector<std::vector<GpuProcess>>& processes() const override { return processes_; }

 private:
  std::vector<GpuUse> uses_;
  std::vector<std::vector<GpuProcess>> processes_;
};

// Two cards, in different NUMA nodes of the test's topology. ACME_CARDS chooses among them.
inline GpuList acme_cards(const Environment& environment) {
  GpuList list;
  list.has_driver = true;
  list.source = "ACME";
  for (const auto& [letter, address] :
       {std::pair("a", "0000:17:00.0"), std::pair("b", "0000:9a:00.0")}) {
    const std::string* chosen = find_variable(environment, "ACME_CARDS");
    if (chosen != nullptr && chosen->find(letter) == std::string::npos) continue;
    Gpu gpu;
    gpu.visible = letter;
    gpu.name = "ACME 1";
    gpu.pci_address = gpu.watched_as = address;
    list.gpus.push_back(gpu);
  }
  return list;
}

inline GpuVendor acme_gpus(int pid = 0) {
  return {"ACME", {"ACME_CARDS"}, acme_cards, [pid](const std::vector<std::string>& names) {
            return std::make_unique<AcmeWatch>(names, pid);
          }};
}

// The vendor, on a machine without its cards.
inline GpuVendor no_acme_gpus() {
  auto vendor = acme_gpus();
  vendor.list = [](const Environment&) {
    GpuList list;
    list.source = "no ACME driver";
    return list;
  };
  return vendor;
}

}  // namespace hvdrun
