// Tests the agent that ssh starts: this build's hvdrun with pipes as its standard streams.
#include "remote/remote_agent.hpp"

#include "agent_process.hpp"
#include "base/event_loop.hpp"
#include "base/system.hpp"
#include "base/version.hpp"
#include "channels/child_process.hpp"

#include <cerrno>
#include <csignal>
#include <memory>
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

ConfigureMessage configuration() {
  ConfigureMessage message;
  message.version = kVersion;
  message.job_id = random_hex(16);
  message.pmix = PmixMode::off;
  return message;
}

struct InvalidMessage {
  ConfigureMessage message;
  const char* error;
};

TEST(AgentOptions, RefuseAnotherVersionAndInvalidValues) {
  auto other_version = configuration();
  other_version.version = "0.0.1";
  auto other_protocol = configuration();
  other_protocol.protocol = 99;
  auto path = configuration();
  path.job_id = "../../../../etc/abcdefghijklmnop";
  auto pmix = configuration();
  pmix.pmix = static_cast<PmixMode>(7);
  for (const auto& [message, error] :
       {InvalidMessage{other_version, "the launcher's is 0.0.1"},
        InvalidMessage{other_protocol, "install the same"}, InvalidMessage{path, "job id"},
        InvalidMessage{pmix, "PMIx"}}) {
    const auto options = agent_options(message);
    ASSERT_FALSE(options) << error;
    EXPECT_NE(options.error().message.find(error), std::string::npos) << options.error().message;
  }
  EXPECT_TRUE(agent_options(configuration()));
}

ChildProcess start_agent() {
  auto process = start_child({HVDRUN_PROGRAM, std::string(kAgentArgument)});
  EXPECT_TRUE(process) << process.error().message;
  return std::move(*process);
}

// Covers everything from the first frame to the end of a rank, over two pipes.
TEST(RemoteAgent, RunsARankAndExits) {
  ChildProcess process = start_agent();
  EventLoop loop;
  std::optional<HelloMessage> hello;
  std::optional<ExitedMessage> exited;
  std::string output;
  bool done = false;
  std::optional<Link> link;
  const auto on_frame = [&](const Frame& frame) {
    switch (frame.type) {
      case FrameType::hello: {
        hello = *parse<HelloMessage>(frame.payload);
        LaunchMessage job;
        job.size = 1;
        job.hosts = {{"here", {0}}};
        job.program = "/bin/sh";
        job.arguments = {"sh", "-c", "echo from $WHO; exit 3"};
        job.working_directory = "/";
        job.environment = {"PATH=/bin"};
        job.ranks.resize(1);
        job.ranks[0].environment = {{"WHO", "rank 0"}};
        link->send(FrameType::output_credit, 0, pack_number(1 << 20));
        link->send(FrameType::launch, 0, pack(job));
        break;
      }
      case FrameType::output:
        output += parse_output(frame.payload)->bytes;
        break;
      case FrameType::exited:
        exited = *parse<ExitedMessage>(frame.payload);
        break;
      case FrameType::done:
        done = true;
        break;
      default:
        break;
    }
  };
  link.emplace(loop, std::move(process.link),
               Link::Events{on_frame, [&](const std::optional<Error>&) { loop.stop(); }});
  link->send(FrameType::configure, 0, pack(configuration()));
  loop.run();
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->version, kVersion);
  EXPECT_EQ(output, "from rank 0\n");
  ASSERT_TRUE(exited);
  EXPECT_EQ(WEXITSTATUS(exited->wait_status), 3);
  EXPECT_TRUE(done);
  EXPECT_EQ(wait_for(process), 0);
  EXPECT_EQ(read_all(process.errors), "");
}

TEST(RemoteAgent, ReportsAFrameThatIsTooLarge) {
  ::signal(SIGPIPE, SIG_IGN);  // the agent exits before it has read the frame
  ChildProcess process = start_agent();
  EventLoop loop;
  std::optional<FailedMessage> failed;
  bool done = false;
  std::optional<Link> link;
  const auto on_frame = [&](const Frame& frame) {
    if (frame.type == FrameType::hello)
      link->send_shared(FrameType::launch, 0,
                        std::make_shared<const std::string>(kMaxPayload + 1, 'x'));
    if (frame.type == FrameType::failed) failed = *parse<FailedMessage>(frame.payload);
    done = done || frame.type == FrameType::done;
  };
  link.emplace(loop, std::move(process.link),
               Link::Events{on_frame, [&](const std::optional<Error>&) { loop.stop(); }});
  link->send(FrameType::configure, 0, pack(configuration()));
  loop.run();
  ::signal(SIGPIPE, SIG_DFL);
  ASSERT_TRUE(failed);
  EXPECT_NE(failed->text.find("a frame of 67108865 bytes"), std::string::npos) << failed->text;
  EXPECT_TRUE(done);
  EXPECT_EQ(wait_for(process), 0);
}

TEST(RemoteAgent, ExitsWhenTheLauncherClosesTheLink) {
  ChildProcess process = start_agent();
  process.link = {};
  EXPECT_EQ(wait_for(process), kExitLauncher);
  EXPECT_EQ(read_all(process.errors), "hvdrun: the launcher has closed the link\n");
}

TEST(RemoteAgent, PrintsWhyItDoesNotStart) {
  ChildProcess process = start_agent();
  auto message = configuration();
  message.version = "0.0.1";
  char header[kFrameHeaderSize];
  const std::string payload = pack(message);
  encode_frame_header(header, FrameType::configure, 0, payload.size());
  const std::string bytes = std::string(header, sizeof header) + payload;
  ASSERT_EQ(::write(process.link.out.get(), bytes.data(), bytes.size()),
            static_cast<ssize_t>(bytes.size()));
  EXPECT_EQ(wait_for(process), kExitUsage);
  EXPECT_EQ(read_all(process.errors), "hvdrun: hvdrun here is version " + std::string(kVersion) +
                                          ", the launcher's is 0.0.1: install the same on both\n");
}

TEST(RemoteAgent, RefusesBytesThatAreNoFrame) {
  ChildProcess process = start_agent();
  const std::string text = "GET / HTTP/1.1\r\n\r\n";
  ASSERT_EQ(::write(process.link.out.get(), text.data(), text.size()),
            static_cast<ssize_t>(text.size()));
  EXPECT_NE(wait_for(process), 0);
  EXPECT_NE(read_all(process.errors), "");
}

}  // namespace
}  // namespace hvdrun
