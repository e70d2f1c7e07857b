#include "resources/login_node.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace hvdrun {

Result<std::string> check_login_node(const JobSpec& spec, const Allocation& allocation,
                                     const Environment& environment,
                                     const std::filesystem::path& root, Schedulers all) {
  if (allocation.from != HostSource::this_machine || spec.login_node == LoginNode::allow)
    return std::string();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Scheduler* scheduler) {
    return scheduler->is_login_node(environment, root);
  });
  if (found == all.end()) return std::string();
  if (spec.login_node == LoginNode::refuse)
    return usage_error(
        fmt::format("ranks may not run on this login node (--login-node refuse): {} for this "
                    "command",
                    (*found)->to_submit()));
  return fmt::format(
      "without an allocation the ranks run on this host, which runs no jobs of {}: a login node? "
      "{}",
      (*found)->name(), (*found)->to_submit());
}

}  // namespace hvdrun
