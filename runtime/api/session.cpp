#include "api/session.hpp"

#include "api/meeting.hpp"
#include "hvd_contract/environment.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace libhvd {
namespace {

constexpr std::int64_t kLongestPatienceS = 24 * 60 * 60;

Result<StatusPage> attach_page(const Environment& environment) {
  auto page = StatusPage::attach(environment);
  if (page.ok() || page.error().status == HVD_ERROR_ENVIRONMENT) return page;
  // Only the launcher's view of this rank is lost.
  std::fprintf(stderr, "hvd: going on without a status page: %s\n", page.error().message.c_str());
  return StatusPage();
}

// sbatch(1), output environment variables: when the job reaches its time limit. What is not a
// number there is not the user's mistake, and is as good as nothing.
std::optional<std::int64_t> slurm_end_time(const Environment& environment) {
  auto time = read_integer(environment, "SLURM_JOB_END_TIME", 0, INT64_MAX);
  return time.ok() ? *time : std::nullopt;
}

}  // namespace

Result<std::unique_ptr<Session>> Session::open(const Environment& environment,
                                               std::uint64_t generation,
                                               std::shared_ptr<void>& lasting) {
  BootstrapOptions options;
  options.generation = generation;
  HVD_TRY(const auto seconds,
          read_integer(environment, HVD_ENV_START_TIMEOUT, 1, kLongestPatienceS));
  if (seconds) options.patience = std::chrono::seconds(*seconds);
  HVD_TRY(StatusPage page, attach_page(environment));
  HVD_TRY(auto bootstrap, open_bootstrap(environment, options));
  lasting = bootstrap->lasting();
  HVD_TRY(Meeting meeting, meet(*bootstrap, environment));
  return std::unique_ptr<Session>(
      new Session(std::move(bootstrap), meeting.topology,
                  Communicator(std::move(meeting.segment), meeting.topology.rank), std::move(page),
                  slurm_end_time(environment)));
}

Session::Session(std::unique_ptr<Bootstrap> bootstrap, Topology topology, Communicator communicator,
                 StatusPage page, std::optional<std::int64_t> end_time)
    : bootstrap_(std::move(bootstrap)),
      topology_(topology),
      communicator_(std::move(communicator)),
      page_(std::move(page)),
      end_time_(end_time) {}

double Session::seconds_left() const {
  const double said = page_.notice().seconds_left;
  if (!end_time_) return said;
  const auto now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch());
  return std::min(said, static_cast<double>(*end_time_) - now.count());
}

Session::~Session() {
  communicator_.leave();
  page_.set_left();
}

}  // namespace libhvd
