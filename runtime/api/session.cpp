#include "api/session.hpp"

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

// Of variables that others set. What is not a number there is not the user's mistake, and is as
// good as nothing.
std::int64_t foreign_number(const Environment& environment, const char* name,
                            std::int64_t otherwise) {
  auto number = read_integer(environment, name, 0, INT64_MAX);
  return number.ok() ? number->value_or(otherwise) : otherwise;
}

Result<Surroundings> read_surroundings(const Environment& environment) {
  constexpr std::int64_t kMostRestarts = 1'000'000;
  Surroundings read;
  HVD_TRY(const auto restarts, read_integer(environment, HVD_ENV_RESTART_COUNT, 0, kMostRestarts));
  const std::int64_t by_launcher =
      restarts ? *restarts : foreign_number(environment, "TORCHELASTIC_RESTART_COUNT", 0);
  // sbatch(1), output environment variables.
  const std::int64_t by_slurm = foreign_number(environment, "SLURM_RESTART_COUNT", 0);
  read.restart_count = static_cast<int>(std::min(by_launcher + by_slurm, kMostRestarts));
  const std::int64_t end_time = foreign_number(environment, "SLURM_JOB_END_TIME", 0);
  if (end_time > 0) read.end_time = end_time;
  return read;
}

Result<std::chrono::milliseconds> read_host_timeout(const Environment& environment,
                                                    std::chrono::milliseconds otherwise) {
  constexpr std::int64_t kLeastS = 2;  // a bridge is heard once a second
  HVD_TRY(const auto seconds,
          read_integer(environment, HVD_ENV_HOST_TIMEOUT, 0, kLongestPatienceS));
  if (!seconds) return otherwise;
  return std::chrono::milliseconds(
      std::chrono::seconds(*seconds == 0 ? 0 : std::max(*seconds, kLeastS)));
}

}  // namespace

Result<std::unique_ptr<Session>> Session::open(const Environment& environment,
                                               std::uint64_t generation,
                                               std::shared_ptr<void>& lasting) {
  BootstrapOptions options;
  options.generation = generation;
  MeetingOptions meeting_options;
  HVD_TRY(const auto seconds,
          read_integer(environment, HVD_ENV_START_TIMEOUT, 1, kLongestPatienceS));
  if (seconds) options.patience = std::chrono::seconds(*seconds);
  meeting_options.patience = options.patience / 2;
  HVD_TRY(meeting_options.silence, read_host_timeout(environment, meeting_options.silence));
  HVD_TRY(const Surroundings surroundings, read_surroundings(environment));
  HVD_TRY(StatusPage page, attach_page(environment));
  HVD_TRY(auto bootstrap, open_bootstrap(environment, options));
  lasting = bootstrap->lasting();
  HVD_TRY(Meeting meeting, meet(*bootstrap, environment, meeting_options));
  return std::unique_ptr<Session>(
      new Session(std::move(bootstrap), std::move(meeting), std::move(page), surroundings));
}

Session::Session(std::unique_ptr<Bootstrap> bootstrap, Meeting meeting, StatusPage page,
                 Surroundings surroundings)
    : bootstrap_(std::move(bootstrap)),
      topology_(meeting.topology),
      communicator_(meeting.segment, topology_.rank),
      bridge_(std::move(meeting.bridge)),
      page_(std::move(page)),
      surroundings_(surroundings) {}

void Session::close_in_child() {
  if (bridge_) bridge_->close_in_child();
}

double Session::seconds_left() const {
  const double said = page_.notice().seconds_left;
  if (!surroundings_.end_time) return said;
  const auto now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch());
  return std::min(said, static_cast<double>(*surroundings_.end_time) - now.count());
}

Result<std::shared_ptr<Engine>> Session::engine() {
  if (!engine_) {
    HVD_TRY(engine_, Engine::start(communicator_.second()));
  }
  return engine_;
}

Session::~Session() {
  if (engine_) engine_->stop();
  communicator_.leave();
  bridge_.reset();
  page_.set_left();
}

}  // namespace libhvd
