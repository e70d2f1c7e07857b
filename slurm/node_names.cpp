#include "slurm/node_names.hpp"

#include <algorithm>

namespace hvdrun {

std::vector<NodeNames> parse_node_names(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  constexpr std::string_view kName = "NodeName=";
  constexpr std::string_view kAddress = "NodeAddr=";
  constexpr std::string_view kHostName = "NodeHostName=";
  std::vector<NodeNames> nodes;
  for (auto at = text.find_first_not_of(kBlank); at != std::string_view::npos;
       at = text.find_first_not_of(kBlank, at)) {
    const auto end = std::min(text.find_first_of(kBlank, at), text.size());
    const auto word = text.substr(at, end - at);
    if (word.starts_with(kName) && word.size() > kName.size())
      nodes.push_back({std::string(word.substr(kName.size())), {}, {}});
    else if (word.starts_with(kAddress) && !nodes.empty())
      nodes.back().address = word.substr(kAddress.size());
    else if (word.starts_with(kHostName) && !nodes.empty())
      nodes.back().host_name = word.substr(kHostName.size());
    at = end;
  }
  return nodes;
}

}  // namespace hvdrun
