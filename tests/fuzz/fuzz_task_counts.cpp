// Reads SLURM's variables, one NAME=VALUE per line. They must make a consistent job or an error of
// one line.
#include "base/host_list.hpp"
#include "expect.hpp"
#include "slurm/counts.hpp"
#include "slurm/job_environment.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace {

void check_counts(std::string_view text) {
  const auto counts = hvdrun::expand_counts(text);
  if (counts) {
    FUZZ_EXPECT(!counts->empty() && counts->size() <= hvdrun::kMaxHosts);
    FUZZ_EXPECT(std::all_of(counts->begin(), counts->end(), [](int count) { return count > 0; }));
  }
  const auto gpus = hvdrun::count_gpus(text);
  FUZZ_EXPECT(!gpus || *gpus >= 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  hvdrun::Environment environment{{"SLURM_JOB_ID", "7"}};
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const auto equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    check_counts(line.substr(equals + 1));
    environment.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  const auto job = hvdrun::slurm_job(environment);
  if (!job) {
    FUZZ_EXPECT(job.error().message.find('\n') == std::string::npos);
    FUZZ_EXPECT(job.error().exit_code == hvdrun::kExitUsage);
    return 0;
  }
  const std::size_t hosts = std::max<std::size_t>((*job)->hosts.size(), 1);
  for (const auto* counts : {&(*job)->tasks, &(*job)->cpus, &(*job)->gpus})
    FUZZ_EXPECT(counts->empty() || counts->size() == hosts);
  return 0;
}
