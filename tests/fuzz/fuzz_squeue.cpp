// Parses any bytes as the output of squeue and sacct, which has the names and paths of users.
#include "commands/jobs_table.hpp"
#include "expect.hpp"
#include "slurm/job_end.hpp"
#include "slurm/job_id.hpp"
#include "slurm/job_record.hpp"
#include "slurm/job_watch.hpp"
#include "slurm/output_path.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

using namespace hvdrun;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto jobs = parse_jobs(text);
  const auto table = jobs_table(jobs, 1795343136, 80);
  for (const unsigned char c : table) FUZZ_EXPECT(c == '\n' || (c >= 0x20 && c != 0x7f));
  FUZZ_EXPECT(!jobs_json(jobs).empty());
  for (const auto& job : jobs) {
    const auto paths = output_paths(job);
    FUZZ_EXPECT(paths.out.empty() == !job.is_batch);
    FUZZ_EXPECT(exit_code_of(end_of(job)) >= 0 && exit_code_of(end_of(job)) < 256);
  }
  if (!jobs.empty()) {
    JobWatch watch({"12", 12, JobId::Kind::job});
    watch.take({QueueAnswer::Kind::jobs, jobs, {}}, {1795343136, {}});
    FUZZ_EXPECT(watch.end() || watch.job() || watch.is_array());
  }
  for (const auto& end : parse_accounting(text)) FUZZ_EXPECT(!end_text(end).empty());
  if (const auto id = parse_job_id(text.substr(0, 64))) {
    FUZZ_EXPECT(id->number > 0 && belongs_to(id->text, id->number));
    count_tasks(id->text);
  }
  return 0;
}
