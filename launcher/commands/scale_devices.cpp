#include "commands/scale_devices.hpp"

#include <nlohmann/json.hpp>

namespace hvdrun::scale {

Result<std::string> visible_devices(std::string_view dry_run) {
  const auto begin = dry_run.starts_with('{') ? 0 : dry_run.find("\n{");
  // The JSON library throws. No exception leaves this function.
  try {
    const auto json = nlohmann::json::parse(
        begin == std::string_view::npos ? std::string_view() : dry_run.substr(begin));
    const auto& hosts = json.at("hosts");
    if (hosts.size() != 1 || hosts[0].at("provisional").get<bool>())
      return fail("--devices needs one host whose GPUs are known here: run it on that host",
                  kExitUsage);
    std::string devices;
    for (const auto& rank : hosts[0].at("ranks")) {
      if (rank.at("gpu").is_null())
        return fail("--devices: hvdrun found no GPUs on " + hosts[0].at("host").get<std::string>() +
                        " (" + hosts[0].at("gpu_source").get<std::string>() + ")",
                    kExitUsage);
      devices += (devices.empty() ? "" : ",") + rank.at("gpu").at("visible").get<std::string>();
    }
    return devices;
  } catch (const nlohmann::json::exception& error) {
    return fail(std::string("hvdrun --dry-run --json cannot be read: ") + error.what());
  }
}

}  // namespace hvdrun::scale
