#include "api/session.hpp"

#include "api/meeting.hpp"
#include "hvd_contract/environment.h"

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
  return std::unique_ptr<Session>(new Session(
      std::move(bootstrap), meeting.topology,
      Communicator(std::move(meeting.segment), meeting.topology.rank), std::move(page)));
}

Session::Session(std::unique_ptr<Bootstrap> bootstrap, Topology topology, Communicator communicator,
                 StatusPage page)
    : bootstrap_(std::move(bootstrap)),
      topology_(topology),
      communicator_(std::move(communicator)),
      page_(std::move(page)) {}

Session::~Session() {
  communicator_.leave();
  page_.set_left();
}

}  // namespace libhvd
