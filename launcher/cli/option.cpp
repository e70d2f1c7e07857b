#include "cli/option.hpp"

namespace hvdrun::cli {

std::string_view group_title(OptionGroup group) {
  using enum OptionGroup;
  switch (group) {
    case placement:
      return "Ranks, hosts and binding";
    case start:
      return "Start, environment and input";
    case reach:
      return "Other hosts";
    case collectives:
      return "Collectives (libhvd)";
    case output:
      return "Output";
    case stopping:
      return "Stopping";
    case information:
      return "Information and settings";
    case resources:
      return "What to ask SLURM for";
    case script:
      return "The script";
    case submission:
      return "What to do with it";
  }
  return {};
}

bool takes_value(const Option& option) {
  return !option.value_name.empty();
}

bool is_setting(const Option& option) {
  return option.apply != nullptr || option.apply_batch != nullptr;
}

}  // namespace hvdrun::cli
