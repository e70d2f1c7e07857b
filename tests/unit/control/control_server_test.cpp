// The socket of a running hvdrun, with clients that keep to the rules and clients that do not.
#include "control/control_server.hpp"

#include "control/control_client.hpp"
#include "control/control_folder.hpp"
#include "run_until.hpp"
#include "temporary_folder.hpp"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

constexpr auto kId = "0123456789abcdef0123456789abcdef";
constexpr auto kOtherId = "ffff456789abcdef0123456789abcdef";

struct ControlServerTest : testing::Test {
  TemporaryFolder base;
  const Environment environment{{"XDG_RUNTIME_DIR", base.path().string()}};
  const ControlSocket socket{base.path() / "hvdrun", control_name(::getpid(), kId)};
  EventLoop loop;
  int requests = 0;
  std::vector<ControlAnswer> kept;  // of the word "later"

  std::unique_ptr<ControlServer> serve(const char* id = kId) {
    auto server = ControlServer::start(loop, environment, id,
                                       [this](const ControlRequest& request, ControlAnswer answer) {
                                         ++requests;
                                         if (request.word == "later")
                                           return kept.push_back(std::move(answer));
                                         if (request.word == "large")
                                           return answer(json_line(std::string(20u << 20, 'x')));
                                         answer(json_line(request.arguments.at("value")));
                                       });
    EXPECT_TRUE(server) << server.error().message;
    return std::move(*server);
  }

  // Returns the answer to "echo".
  std::string echo(ControlClient& client, const std::string& value) {
    EXPECT_TRUE(client.send("echo", {{"value", value}}));
    const int before = requests;
    run_until(
        loop, [&] { return requests > before; }, "a request");
    Patience patience{std::chrono::minutes(1)};
    const auto answer = client.receive(patience);
    return answer ? answer->get<std::string>() : answer.error().message;
  }

  ControlClient client() {
    auto client = ControlClient::connect(socket);
    EXPECT_TRUE(client) << client.error().message;
    return std::move(*client);
  }

  // Returns a connection that can send anything.
  Fd stranger() {
    const auto folder = open_control_folder(socket.folder);
    const auto address = control_address(*folder, socket.name);
    Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    return fd;
  }

  // Runs the loop until the server has closed the connection.
  void expect_closed(const Fd& fd) {
    const auto closed = [&] {
      char byte = 0;
      return ::recv(fd.get(), &byte, 1, MSG_DONTWAIT) == 0;
    };
    Timer again(loop, [&] { again.start(milliseconds(1)); });
    again.start(milliseconds(1));
    run_until(loop, closed, "the server to close a connection");
  }
};

TEST_F(ControlServerTest, AnswersSeveralRequestsOfOneClient) {
  const auto server = serve();
  auto one = client();
  EXPECT_EQ(one.pid(), ::getpid());
  EXPECT_EQ(echo(one, "a"), "a");
  EXPECT_EQ(echo(one, "b"), "b");
}

TEST_F(ControlServerTest, TheFolderIsPrivateAndTheSocketIsRemoved) {
  auto server = serve();
  struct stat status {};
  ASSERT_EQ(::stat(socket.folder.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  server.reset();
  EXPECT_FALSE(std::filesystem::exists(socket.folder)) << "it is empty";
}

TEST_F(ControlServerTest, AFolderThatOthersMayEnterIsNotUsed) {
  std::filesystem::create_directory(socket.folder);
  ::chmod(socket.folder.c_str(), 0755);
  const auto folder = make_control_folder(socket.folder);
  ASSERT_FALSE(folder);
  EXPECT_NE(folder.error().message.find("other users may enter"), std::string::npos);
  std::filesystem::remove(socket.folder);
  std::filesystem::create_directory_symlink(base.path(), socket.folder);
  EXPECT_FALSE(make_control_folder(socket.folder));
}

TEST_F(ControlServerTest, ASocketThatAKilledHvdrunHasLeftIsRemoved) {
  const auto folder = make_control_folder(socket.folder);
  ASSERT_TRUE(folder);
  {
    const auto address = control_address(*folder, socket.name);
    const Fd dead(::socket(AF_UNIX, SOCK_STREAM, 0));
    ASSERT_EQ(::bind(dead.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ASSERT_EQ(control_names(*folder), std::vector{socket.name});
  const auto connected = ControlClient::connect(socket);
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().message, "");
  EXPECT_TRUE(control_names(*folder).empty());
}

TEST_F(ControlServerTest, AnAnswerMayComeLater) {
  const auto server = serve();
  auto late = client();
  ASSERT_TRUE(late.send("later", ControlJson::object()));
  run_until(
      loop, [&] { return !kept.empty(); }, "a request");
  auto other = client();
  EXPECT_EQ(echo(other, "meanwhile"), "meanwhile");
  kept.front()(json_line("now"));
  Patience patience{std::chrono::minutes(1)};
  EXPECT_EQ(*late.receive(patience), "now");
}

TEST_F(ControlServerTest, AnAnswerToAClientOrOfAServerThatHasGoneIsIgnored) {
  auto server = serve();
  {
    auto gone = client();
    ASSERT_TRUE(gone.send("later", ControlJson::object()));
    run_until(
        loop, [&] { return !kept.empty(); }, "a request");
  }
  kept.front()(json_line("now"));
  auto other = client();
  EXPECT_EQ(echo(other, "next"), "next");
  server.reset();
  kept.front()(json_line("too late"));
}

TEST_F(ControlServerTest, NonsenseIsAnsweredOrDisconnected) {
  const auto server = serve();
  const auto words = stranger();
  ASSERT_GT(::send(words.get(), "hello\n", 6, 0), 0);
  char answer[4096] = {};
  Timer again(loop, [&] { again.start(milliseconds(1)); });
  again.start(milliseconds(1));
  run_until(
      loop, [&] { return ::recv(words.get(), answer, sizeof answer - 1, MSG_DONTWAIT) > 0; },
      "an answer");
  EXPECT_NE(std::string(answer).find("no object of JSON"), std::string::npos) << answer;

  const auto endless = stranger();
  const std::string bytes(100u << 10, 'x');
  ASSERT_GT(::send(endless.get(), bytes.data(), bytes.size(), 0), 0);
  expect_closed(endless);

  const auto hasty = stranger();
  const auto two = pack_request("echo", {{"value", "a"}}) + "{";
  ASSERT_GT(::send(hasty.get(), two.data(), two.size(), 0), 0);
  expect_closed(hasty);

  auto one = client();
  EXPECT_TRUE(one.send("echo", {{"wrong", 1}}));
  run_until(
      loop, [&] { return requests > 0; }, "a request");
  Patience patience{std::chrono::minutes(1)};
  const auto refused = one.receive(patience);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "the arguments of \"echo\" are malformed");
}

TEST_F(ControlServerTest, AClientThatDoesNotReadDisturbsNoOther) {
  const auto server = serve();
  auto lazy = client();
  ASSERT_TRUE(lazy.send("large", ControlJson::object()));
  run_until(
      loop, [&] { return requests == 1; }, "a request");
  auto other = client();
  EXPECT_EQ(echo(other, "a"), "a");
}

TEST_F(ControlServerTest, OneOfManyClientsIsDisconnectedForTheNext) {
  const auto server = serve();
  const auto silent = stranger();
  run_until(
      loop, [&, turns = 0]() mutable { return ++turns > 1; }, "a turn");
  std::vector<Fd> crowd;
  for (int i = 0; i < 300; ++i) {
    crowd.push_back(stranger());
    loop.run_once();
  }
  expect_closed(silent);
  auto last = client();
  EXPECT_EQ(echo(last, "a"), "a");
}

// The server's process is a child, which is stopped when it has the question.
TEST_F(ControlServerTest, AServerThatIsStoppedAfterTheQuestionIsNotWaitedFor) {
  const ControlSocket where{socket.folder, control_name(::getpid(), kOtherId)};
  const auto folder = make_control_folder(where.folder);
  ASSERT_TRUE(folder) << folder.error().message;
  const Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto address = control_address(*folder, where.name);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  int ready[2];  // NOLINT: filled by pipe
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  char byte = 0;
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::listen(listener.get(), 1);  // makes it the child's
    if (::write(ready[1], &byte, 1) != 1) ::_exit(1);
    const int fd = ::accept(listener.get(), nullptr, nullptr);
    if (::recv(fd, &byte, 1, 0) == 1)
      while (true) ::kill(::getpid(), SIGSTOP);
    ::_exit(1);
  }
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::close(ready[0]);
  ::close(ready[1]);
  auto client = ControlClient::connect(where);
  ASSERT_TRUE(client) << client.error().message;
  EXPECT_EQ(client->pid(), child);
  ASSERT_TRUE(client->send("why", ControlJson::object()));
  Patience patience{std::chrono::minutes(1)};
  const auto answer = client->receive(patience);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().message, fmt::format("hvdrun {0} is stopped and does not answer; kill "
                                                "-CONT {0} continues it",
                                                child));
  EXPECT_FALSE(patience.is_over());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_F(ControlServerTest, TwoServersHaveSocketsOfTheirOwn) {
  const auto one = serve();
  const auto two = serve(kOtherId);
  EXPECT_EQ(control_names(*open_control_folder(socket.folder)).size(), 2u);
}

// Another user may have made one of these names, and the user's own may be open to others.
TEST(OtherControlFolders, AreThoseThatOnlyThisUserMayEnter) {
  const TemporaryFolder folder;
  const auto name = "hvdrun-" + std::to_string(::geteuid()) + "-";
  const auto own = folder.path() / (name + "own");
  const auto open = folder.path() / (name + "open");
  std::filesystem::create_directory(own);
  ASSERT_EQ(::chmod(own.c_str(), 0700), 0);
  std::filesystem::create_directory(open);
  ASSERT_EQ(::chmod(open.c_str(), 0755), 0);
  std::filesystem::create_directory_symlink(own, folder.path() / (name + "link"));
  std::vector<std::filesystem::path> found;
  for (const auto& each : other_control_folders({{"TMPDIR", folder.path().string()}}))
    if (each.parent_path() == folder.path()) found.push_back(each);
  EXPECT_EQ(found, std::vector{own});
}

}  // namespace
}  // namespace hvdrun
