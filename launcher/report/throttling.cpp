#include "report/throttling.hpp"

#include "base/severity.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include <fmt/format.h>

namespace hvdrun {
namespace {

constexpr double kNotable = 10;  // per cent of the samples
constexpr double kLeastShown = 0.5;

struct Reason {
  std::string_view words;
  bool warns = false;
};

// By ThrottleReason. The words are those of nvidia-smi.
constexpr std::array<Reason, kThrottleReasons> kReasons{{
    {"power cap"},
    {"HW slowdown"},
    {"HW thermal slowdown", true},
    {"HW power brake slowdown", true},
    {"SW thermal slowdown", true},
    {"board limit"},
    {"reliability limit"},
}};

double percent_of(const Throttling& throttling, std::size_t reason) {
  if (throttling.samples == 0) return 0;
  return 100 * static_cast<double>(throttling.seen[reason]) /
         static_cast<double>(throttling.samples);
}

std::string describe(const ThrottleShare& share, std::string_view of) {
  return fmt::format("{} {}{:.0f} %", share.reason, of, share.percent);
}

// Returns the most frequent reason for a warning.
ThrottleShare worst_of(const GpuUse& gpu) {
  ThrottleShare worst;
  if (!gpu.throttling) return worst;
  for (std::size_t reason = 0; reason < kThrottleReasons; ++reason)
    if (const double percent = percent_of(*gpu.throttling, reason);
        kReasons[reason].warns && percent > worst.percent)
      worst = {kReasons[reason].words, percent};
  return worst;
}

}  // namespace

std::vector<ThrottleShare> throttle_shares(const Throttling& throttling) {
  std::vector<ThrottleShare> shares;
  for (std::size_t reason = 0; reason < kThrottleReasons; ++reason)
    if (throttling.seen[reason] > 0)
      shares.push_back({kReasons[reason].words, percent_of(throttling, reason)});
  std::stable_sort(shares.begin(), shares.end(),
                   [](const auto& one, const auto& other) { return one.percent > other.percent; });
  return shares;
}

std::string describe_throttling(const Throttling& throttling) {
  std::string text;
  for (const auto& share : throttle_shares(throttling))
    if (share.percent >= kLeastShown) text += (text.empty() ? "" : ", ") + describe(share, "");
  return text;
}

std::optional<std::string> throttle_warning(const std::vector<HostGpus>& hosts) {
  const HostGpus* host = nullptr;
  const GpuUse* worst = nullptr;
  ThrottleShare share;
  std::size_t others = 0;
  for (const auto& each : hosts) {
    for (const auto& gpu : each.gpus) {
      const auto found = worst_of(gpu);
      if (found.percent < kNotable) continue;
      if (worst != nullptr) ++others;
      if (worst != nullptr && found.percent <= share.percent) continue;
      host = &each;
      worst = &gpu;
      share = found;
    }
  }
  if (worst == nullptr) return std::nullopt;
  auto text = fmt::format("{} on {} was throttled: {} of the samples",
                          worst->device.empty() ? worst->uuid : worst->device, host->host,
                          describe(share, "in "));
  if (worst->peak_celsius) text += fmt::format(", up to {} °C", *worst->peak_celsius);
  if (others > 0)
    text += fmt::format("; so {} {} (--report FILE has all)", others == 1 ? "was" : "were",
                        plural(others, "other GPU"));
  return warning_text(text);
}

}  // namespace hvdrun
