#include "remote/remote_agent.hpp"

#include "agent/job_folders.hpp"
#include "agent/process_tree.hpp"
#include "agent/tcp_connection.hpp"
#include "base/environment.hpp"
#include "base/result.hpp"
#include "base/system.hpp"
#include "base/version.hpp"
#include "resources/chosen_devices.hpp"
#include "resources/inventory.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

extern char** environ;  // NOLINT: environ(7)

namespace hvdrun {
namespace {

constexpr std::chrono::seconds kLeftoversTimeout{10};
// The launcher sends its first frame as soon as it has the link.
constexpr std::chrono::seconds kFirstFrameTimeout{60};
constexpr std::size_t kJobIdLength = 32;

Result<Fd> take(int standard) {
  Fd taken(::fcntl(standard, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!taken) return fail_errno("cannot take the link from the standard streams", errno);
  HVD_CHECK(set_nonblocking(taken.get()));
  return taken;
}

// Moves the link away from stdin and stdout. From here on stdout is stderr, so that no output of
// libraries gets between the frames.
Result<LinkEnd> take_link() {
  LinkEnd link;
  HVD_TRY(link.in, take(STDIN_FILENO));
  HVD_TRY(link.out, take(STDOUT_FILENO));
  const Fd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!nothing || ::dup2(nothing.get(), STDIN_FILENO) < 0 ||
      ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
    return fail_errno("cannot open /dev/null", errno);
  return link;
}

// Shows the launcher that it has reached this host, because a look for GPUs may take long.
void say_alive(const LinkEnd& link) {
  char header[kFrameHeaderSize];
  encode_frame_header(header, FrameType::alive, kToLauncher, 0);
  [[maybe_unused]] const ssize_t sent = ::write(link.out.get(), header, sizeof header);
}

Result<ConfigureMessage> first_message(const LinkEnd& link) {
  FrameReader reader;
  Frame frame{};
  const auto deadline = std::chrono::steady_clock::now() + kFirstFrameTimeout;
  while (true) {
    HVD_TRY(const auto status, reader.next(frame));
    if (status == FrameReader::Status::frame) break;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd waiting{link.in.get(), POLLIN, 0};
    if (left.count() <= 0 || ::poll(&waiting, 1, static_cast<int>(left.count())) == 0)
      return fail("the launcher has sent nothing for 60 s");
    const auto room = reader.room();
    const ssize_t got = ::read(link.in.get(), room.data, room.size);
    if (got == 0) return fail("the launcher has closed the link");
    if (got > 0) reader.filled(static_cast<std::size_t>(got));
    if (got < 0 && errno != EAGAIN && errno != EINTR)
      return fail_errno("cannot read from the link", errno);
  }
  if (frame.type != FrameType::configure)
    return fail("this is hvdrun's agent, which only hvdrun can start");
  return parse<ConfigureMessage>(frame.payload);
}

Result<AgentOptions> first_options(const LinkEnd& link) {
  HVD_TRY(const ConfigureMessage message, first_message(link));
  HVD_TRY(AgentOptions options, agent_options(message));
  // Its guard does the same, unless that was killed too.
  if (message.predecessor && !clean_up(message.job_id, *message.predecessor))
    return fail("processes of the agent that was lost cannot be ended");
  auto environment = environment_from(environ);
  const auto notes = apply_choices(message.devices, environment);
  // Ranks get them from the agent's environment: LaunchMessage::host_variables.
  for (const auto& choice : message.devices)
    ::setenv(choice.name.c_str(), environment[choice.name].c_str(), 1);
  HVD_TRY(options.inventory, local_inventory(environment));
  options.inventory->notes.insert(options.inventory->notes.end(), notes.begin(), notes.end());
  if (options.local_ranks == 0)
    options.local_ranks = std::max(options.inventory->cores.size(), options.inventory->gpus.size());
  return options;
}

[[noreturn]] void give_up(const Error& error) {
  std::fprintf(stderr, "hvdrun: %s\n", error.message.c_str());
  ::_exit(error.exit_code);
}

}  // namespace

std::vector<std::string> cleanup_arguments(const std::string& job_id,
                                           const std::vector<std::size_t>& agents) {
  std::vector<std::string> words{std::string(kAgentArgument), std::string(kCleanupArgument),
                                 job_id};
  for (const auto agent : agents) words.push_back(std::to_string(agent));
  return words;
}

bool clean_up(const std::string& job_id, std::size_t agent) {
  const auto folders = JobFolders::of(job_id, agent);
  // A clean exit removes the folders last, so if they are gone nothing is left.
  std::error_code error;
  if (!std::filesystem::exists(folders.temporary, error) &&
      !std::filesystem::exists(folders.shared, error))
    return true;
  const auto left = kill_job_processes(::getpid(), folders.cookie(), kLeftoversTimeout);
  folders.clean_up();
  return left.empty();
}

int run_cleanup(const std::vector<std::string>& arguments) {
  if (arguments.empty() || !is_job_id(arguments.front())) return kExitUsage;
  bool all = true;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string& digits = arguments[i];
    std::size_t agent = 0;
    const char* const end = digits.data() + digits.size();
    const auto [parsed, error] = std::from_chars(digits.data(), end, agent);
    if (error != std::errc() || parsed != end) return kExitUsage;
    all = clean_up(arguments.front(), agent) && all;
  }
  return all ? kExitOk : kExitLauncher;
}

bool is_job_id(std::string_view text) {
  return text.size() == kJobIdLength && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

Result<AgentOptions> agent_options(const ConfigureMessage& message) {
  if (message.protocol != kProtocolVersion || message.version != kVersion)
    return fail(fmt::format("hvdrun here is version {}, the launcher's is {}: install the same on "
                            "both",
                            kVersion, message.version),
                kExitUsage);
  if (!is_job_id(message.job_id)) return fail("the launcher's job id is invalid");
  if (message.pmix < PmixMode::automatic || message.pmix > PmixMode::off)
    return fail("the launcher sent an unknown PMIx mode");
  AgentOptions options;
  options.job_id = message.job_id;
  options.agent = message.agent;
  options.restart_count = message.restart_count;
  options.pmix = message.pmix;
  options.local_ranks = message.local_ranks;
  options.host_timeout = message.host_timeout;
  options.reports_facts = true;
  options.names = message.names;
  return options;
}

void run_agent_on(LinkEnd link, const AgentStart& start, Fd death) {
  ::signal(SIGPIPE, SIG_IGN);
  say_alive(link);
  auto options = first_options(link);
  if (!options) give_up(options.error());
  options->route = start.route;
  options->ignores_signals = start.ignores_signals;
  options->launcher_is_here = start.launcher_is_here;
  become_guard(*options, std::move(link), std::move(death));
}

void run_remote_agent(bool launcher_is_here) {
  auto link = take_link();
  if (!link) give_up(link.error());
  AgentStart start;
  start.ignores_signals = start.launcher_is_here = launcher_is_here;
  if (!launcher_is_here) start.route = route_of_ssh(std::getenv("SSH_CONNECTION"));
  run_agent_on(std::move(*link), start);
}

}  // namespace hvdrun
