#include "slurm/queue/node_offer.hpp"

#include "slurm/counts.hpp"
#include "slurm/queue/slurm_command.hpp"

#include <charconv>
#include <chrono>

namespace hvdrun {
namespace {

constexpr char kSeparator = '|';
constexpr std::chrono::milliseconds kPatience{10'000};

// The text up to the separator, which is taken away with it.
std::string_view take_field(std::string_view& line) {
  const auto end = line.find(kSeparator);
  const auto field = line.substr(0, end);
  line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
  return field;
}

std::optional<int> take_number(std::string_view& line) {
  const auto field = take_field(line);
  int number = 0;
  const auto read = std::from_chars(field.data(), field.data() + field.size(), number);
  if (read.ec != std::errc() || number < 1) return std::nullopt;
  return number;
}

}  // namespace

std::vector<std::string> sinfo_command() {
  return {"sinfo", "--noheader", "--format=%P|%c|%D|%G"};
}

std::vector<NodeOffer> parse_node_offers(std::string_view text) {
  std::vector<NodeOffer> offers;
  while (!text.empty()) {
    const auto end = text.find('\n');
    auto line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    NodeOffer offer;
    auto partition = take_field(line);
    offer.is_default = partition.ends_with('*');
    if (offer.is_default) partition.remove_suffix(1);
    offer.partition = std::string(partition);
    const auto cpus = take_number(line);
    const auto nodes = take_number(line);
    if (!cpus || !nodes || offer.partition.empty()) continue;
    offer.cpus = *cpus;
    offer.nodes = *nodes;
    offer.gpus = count_gpus_of_gres(line).value_or(0);
    offers.push_back(std::move(offer));
  }
  return offers;
}

std::optional<NodeOffer> offer_of(const std::vector<NodeOffer>& offers,
                                  const std::string& partition) {
  std::optional<NodeOffer> found;
  for (const auto& offer : offers) {
    if (partition.empty() ? !offer.is_default : offer.partition != partition) continue;
    if (found && (found->gpus != offer.gpus || found->cpus != offer.cpus)) return std::nullopt;
    const int nodes = found ? found->nodes : 0;
    found = offer;
    found->nodes += nodes;
  }
  return found;
}

std::optional<NodeOffer> ask_node_offer(const std::string& partition,
                                        const Environment& environment) {
  ProgramRequest request;
  request.command = sinfo_command();
  request.environment = query_environment(environment);
  request.patience = kPatience;
  const auto end = run_slurm(std::move(request));
  if (!end || end->code != 0) return std::nullopt;
  return offer_of(parse_node_offers(end->out), partition);
}

}  // namespace hvdrun
