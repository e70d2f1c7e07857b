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

// Of "gpu:v100:4(S:0-1),nvme:1": 4. "(null)": 0.
int count_gpus_of(std::string_view gres) {
  int gpus = 0;
  while (!gres.empty()) {
    // The sockets in brackets may have commas of their own.
    std::size_t end = 0;
    for (int depth = 0; end < gres.size() && (depth > 0 || gres[end] != ','); ++end)
      depth += gres[end] == '(' ? 1 : gres[end] == ')' ? -1 : 0;
    const auto entry = gres.substr(0, end);
    gres.remove_prefix(end == gres.size() ? end : end + 1);
    if (!entry.starts_with("gpu:")) continue;
    if (const auto count = count_gpus(entry.substr(0, entry.find('(')))) gpus += *count;
  }
  return gpus;
}

}  // namespace

std::vector<std::string> sinfo_command() {
  return {"sinfo", "--noheader", "--format=%P|%c|%G"};
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
    const auto cpus = take_field(line);
    const auto read = std::from_chars(cpus.data(), cpus.data() + cpus.size(), offer.cpus);
    if (read.ec != std::errc() || offer.cpus < 1 || offer.partition.empty()) continue;
    offer.gpus = count_gpus_of(line);
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
    found = offer;
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
