#include "support.hpp"

#include <cstdlib>
#include <filesystem>
#include <thread>

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace libhvd::test {

Environment make_environment(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

void run_ranks(int size, const std::function<void(Communicator&)>& body) {
  auto segment = Segment::anonymous(size);
  ASSERT_TRUE(segment.ok());
  const auto shared = std::make_shared<Segment>(std::move(*segment));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([=, &body] {
      Communicator communicator(shared, rank);
      body(communicator);
      communicator.leave();
    });
  }
  for (auto& thread : threads) thread.join();
}

ReservedPort::ReservedPort() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int on = 1;
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  socklen_t length = sizeof address;
  ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &length);
  number_ = ntohs(address.sin_port);
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "hvd-test-XXXXXX").string();
  EXPECT_NE(::mkdtemp(name.data()), nullptr);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::vector<std::string> TemporaryFolder::entries() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

Child::Child(const std::function<void(const Tell&)>& body) {
  int ends[2];
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  pipe_.reset(ends[0]);
  Fd write_end(ends[1]);
  pid_ = ::fork();
  if (pid_ != 0) return;
  pipe_.reset();
  body([&](const std::string& text) {
    const std::string line = text + '\n';
    if (::write(write_end.get(), line.data(), line.size()) < 0) ::_exit(99);
  });
  ::_exit(0);
}

Child::~Child() {
  if (!pipe_) return;  // moved from
  kill();
  wait();
}

std::optional<std::string> Child::line() {
  while (true) {
    if (const auto end = buffer_.find('\n'); end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    char bytes[512];
    const ssize_t count = ::read(pipe_.get(), bytes, sizeof bytes);
    if (count <= 0) return std::nullopt;
    buffer_.append(bytes, static_cast<std::size_t>(count));
  }
}

void Child::kill() {
  if (pid_ > 0) ::kill(pid_, SIGKILL);
}

int Child::wait() {
  int status = 0;
  if (pid_ > 0) ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return status;
}

Job::Job(int size, const Body& body, const std::map<std::string, std::string>& variables) {
  for (int rank = 0; rank < size; ++rank) {
    children_.emplace_back([&](const Child::Tell& tell) {
      const auto set = [](const std::string& name, const std::string& value) {
        ::setenv(name.c_str(), value.c_str(), 1);
      };
      set("HVD_RANK", std::to_string(rank));
      set("HVD_SIZE", std::to_string(size));
      set("MASTER_ADDR", "127.0.0.1");
      set("HVD_PORT", std::to_string(port_.number()));
      set("HVD_SHM_DIR", memory_.path());
      set("HVD_JOB_KEY", std::string(64, 'a'));
      for (const char* name : {"PMIX_NAMESPACE", "PMIX_RANK", "HVD_STATUS", "HVD_LOCAL_RANK"}) {
        ::unsetenv(name);
      }
      for (const auto& [name, value] : variables) set(name, value);
      body(rank, tell);
    });
  }
}

}  // namespace libhvd::test
