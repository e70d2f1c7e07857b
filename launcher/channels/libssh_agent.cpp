#include "channels/libssh_agent.hpp"

#include "base/system.hpp"
#include "channels/child_process.hpp"
#include "channels/libssh.hpp"
#include "channels/ssh_agent.hpp"
#include "channels/ssh_command.hpp"
#include "channels/ssh_config.hpp"
#include "channels/ssh_failure.hpp"
#include "channels/text_lines.hpp"
#include "common/net/tcp.hpp"

#include <array>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

// The guard there ends within its own timeout, which is shorter. An agent that the system's ssh has
// started has the same timeout.
constexpr milliseconds kEndTimeout{15000};
constexpr milliseconds kConfigTimeout{10000};
// If a server closes the connection before the login: so many logins in all, with a random pause
// after each. The longest pause is three times as long after each.
constexpr int kMostLogins = 4;
constexpr milliseconds kFirstPause{400};
// After this time a thread that is to end, but hangs in libssh or in a look-up of a name, is left
// alone.
constexpr milliseconds kPatience{1000};
// If libssh gives no reason.
const std::string kClosed = "the connection was closed";
// Applies if the user's configuration has no ConnectTimeout. --start-timeout may end before.
constexpr std::chrono::seconds kLoginTimeout{30};

// State of the thread and its owner. It outlives the owner if the thread hangs in a look-up of a
// name, which nothing can interrupt.
struct Shared {
  std::mutex mutex;
  std::condition_variable changed;  // cut or ended
  Mailbox* mailbox = nullptr;       // null after the owner's end
  Fd socket;                        // of the connection, while there is one
  std::string doing = "reading the ssh configuration";
  SshFacts facts;    // of the user's configuration, once it was read
  bool cut = false;  // the owner wants the thread to end
  bool ended = false;

  bool is_cut() {
    const std::lock_guard lock(mutex);
    return cut;
  }
};

struct Task {
  std::shared_ptr<LoginGate> gate;
  SshTarget target;
  SshOptions options;
  std::vector<std::string> arguments;
  std::shared_ptr<const Fd> stream;  // the agent's end of the link; it closes with its last owner
  SshUse use = SshUse::either;
};

// The thread's result, which it posts to the loop.
struct End {
  Error error;                       // why there was no agent; its exit code is unused
  bool ssh_may_succeed = false;      // the system's ssh may get further
  LoginGate::Place place;            // of the login, if the system's ssh may succeed
  int logins = 0;                    // that were tried
  std::optional<int> exit_code;      // of the command
  bool was_lost = false;             // the connection, after the command had been started
  std::shared_ptr<const Fd> stream;  // still unused, if the system's ssh may succeed
};

// Returns the pause before another login after `logins` of them.
milliseconds pause_after(int logins) {
  auto longest = kFirstPause;
  for (int i = 1; i < logins; ++i) longest *= 3;
  const auto random = std::stoul(random_hex(2), nullptr, 16);  // below 65536
  return longest / 4 + longest * 3 / 4 * random / 65536;
}

// Returns the user's home folder as ssh and libssh find it: not by $HOME.
std::string home_folder() {
  std::array<char, 4096> buffer;
  passwd entry{};
  passwd* found = nullptr;
  ::getpwuid_r(::getuid(), &entry, buffer.data(), buffer.size(), &found);
  return found != nullptr ? found->pw_dir : "";
}

class Login {
 public:
  Login(std::shared_ptr<Shared> shared, Task task, std::function<void(std::string)> on_text)
      : shared_(std::move(shared)), task_(std::move(task)), on_text_(std::move(on_text)) {}

  End run() {
    const auto shown = output_of(ssh_config_command(task_.target, task_.options), kConfigTimeout,
                                 [this] { return shared_->is_cut(); });
    const auto server = note_facts(shown);
    place_ = task_.gate->enter(server, [this] { return shared_->is_cut(); });
    if (task_.use == SshUse::ssh) return hand_over("not to be used");
    if (auto opened = open_libssh(); !opened) return hand_over(opened.error().message);
    auto config = configuration(shown);
    if (!config)
      return hand_over(fmt::format("the system's ssh is needed for {}", config.error().message));
    for (logins_ = 1;; ++logins_) {
      const auto timeout = config->connect_timeout.value_or(kLoginTimeout);
      const auto begun = std::chrono::steady_clock::now();
      const auto stood_still = task_.gate->standstill().so_far();
      now("looking up its name");
      auto socket = connect_to_ssh(*config, timeout, [this](int made) { note_socket(made); });
      if (!socket) return failed(socket.error().message);
      now("logging in");
      auto session = SshSession::log_in(*config, std::move(*socket), timeout);
      if (session) return run_agent(std::move(*session));
      const auto& why = session.error().message;
      // libssh and the server have not waited for this process.
      if (task_.gate->standstill().so_far() > stood_still) continue;
      // The system's ssh would wait as long again.
      if (std::chrono::steady_clock::now() - begun >= timeout)
        return failed(
            fmt::format("the login timed out after {} s (ssh's ConnectTimeout)", timeout.count()));
      if (!was_cut_before_login(why) || logins_ + 1 >= kMostLogins || !pause())
        return hand_over(why);
    }
  }

 private:
  static Result<SshConfig> configuration(const Result<std::string>& text) {
    if (!text) return fail(text.error().message);
    HVD_TRY(auto config, parse_ssh_config(*text, home_folder()));
    HVD_CHECK(check_known_hosts(config));
    return config;
  }

  // Returns the ssh server that the login reaches first.
  std::string note_facts(const Result<std::string>& shown) {
    auto facts = ssh_facts(shown ? std::string_view(*shown) : std::string_view());
    auto server = facts.server.empty() ? task_.target.host : facts.server;
    const std::lock_guard lock(shared_->mutex);
    shared_->facts = std::move(facts);
    shared_->doing = fmt::format("waiting for other logins through {}", server);
    return server;
  }

  End run_agent(SshSession session) {
    place_.leave();
    now("starting hvdrun there");
    if (auto started = session.start(remote_command(task_.options, task_.arguments)); !started)
      return hand_over(started.error().message);
    End end;
    const auto proxied = session.proxy(
        task_.stream->get(), [this](std::string_view text) { on_text_(std::string(text)); });
    end.exit_code = proxied.exit_code;
    end.was_lost = !proxied.exit_code;
    end.error.message = proxied.why.empty() ? kClosed : proxied.why;
    return end;
  }

  // Waits before another login. Returns false if the owner wants the thread to end.
  bool pause() {
    now("waiting for another login: a server has closed the connection");
    std::unique_lock lock(shared_->mutex);
    return !shared_->changed.wait_for(lock, pause_after(logins_), [this] { return shared_->cut; });
  }

  void now(std::string doing) {
    const std::lock_guard lock(shared_->mutex);
    shared_->doing = std::move(doing);
  }

  End hand_over(const std::string& why) {
    End end = failed("libssh: " + (why.empty() ? kClosed : why));
    end.ssh_may_succeed = true;
    end.place = std::move(place_);
    end.logins = logins_;
    end.stream = std::move(task_.stream);
    return end;
  }

  static End failed(std::string why) {
    End end;
    end.error.message = std::move(why);
    return end;
  }

  // Keeps a descriptor of the socket for cut(). Its owner may close its own.
  void note_socket(int socket) {
    const std::lock_guard lock(shared_->mutex);
    shared_->doing = "connecting";
    shared_->socket.reset(::fcntl(socket, F_DUPFD_CLOEXEC, 0));
    if (shared_->cut) ::shutdown(shared_->socket.get(), SHUT_RDWR);
  }

  const std::shared_ptr<Shared> shared_;
  Task task_;
  const std::function<void(std::string)> on_text_;
  LoginGate::Place place_;
  int logins_ = 0;
};

class LibsshAgent final : public AgentChannel {
 public:
  LibsshAgent(const EventLoop& loop, Task task, Events events)
      : loop_(loop),
        gate_(task.gate),
        target_(task.target),
        options_(task.options),
        arguments_(task.arguments),
        use_(task.use),
        stream_(task.stream),
        events_(std::move(events)),
        text_([this](std::string line) { events_.on_text(std::move(line)); }),
        mailbox_(loop),
        thread_hangs_(loop, [this] { on_thread_hangs(); }),
        next_login_(loop, [this] { start_ssh(); }) {
    shared_->mailbox = &mailbox_;
    auto started = start_thread(
        "logs in", [this, shared = shared_, task = std::make_shared<Task>(std::move(task))] {
          run(this, shared, std::move(*task));
        });
    if (started) {
      thread_ = std::move(*started);
    } else {
      shared_->ended = true;
      mailbox_.post([this, error = started.error()] {
        End end;
        end.error = error;
        on_end(std::move(end));
      });
    }
  }

  ~LibsshAgent() override {
    cut();
    std::unique_lock lock(shared_->mutex);
    shared_->mailbox = nullptr;
    const bool joins =
        shared_->changed.wait_for(lock, kPatience, [this] { return shared_->ended; });
    lock.unlock();
    if (thread_.joinable()) joins ? thread_.join() : thread_.detach();
  }

  std::string_view name() const override { return fallback_ ? fallback_->name() : "libssh"; }
  bool ended() const override { return end_.has_value(); }
  bool host_answers(milliseconds time) const override {
    if (fallback_) return fallback_->host_answers(time);
    const std::lock_guard lock(shared_->mutex);
    return has_acknowledged(shared_->socket.get(), time);
  }
  bool sends_in_vain() const override {
    if (fallback_) return fallback_->sends_in_vain();
    const std::lock_guard lock(shared_->mutex);
    return common::sends_in_vain(shared_->socket.get());
  }
  void kill(pid_t agent) override {
    cut();
    if (!was_reached_ && !end_ && !thread_hangs_.pending()) thread_hangs_.start(kPatience);
    if (fallback_) fallback_->kill(agent);
    if (next_login_.pending()) finish();
  }

  void on_reached() override {
    was_reached_ = true;
    thread_hangs_.cancel();
    stream_.reset();
    place_.leave();
  }

  SshFacts ssh_facts() const override {
    const std::lock_guard lock(shared_->mutex);
    return shared_->facts;
  }

  std::string status() const override {
    if (fallback_) return fallback_->status();
    const std::lock_guard lock(shared_->mutex);
    return shared_->doing;
  }

  std::string failure() const override {
    if (fallback_) return fallback_->failure();
    if (!end_) return {};
    if (end_->was_lost) return "the connection was lost (libssh: " + end_->error.message + ")";
    if (end_->exit_code)
      return explain_agent_end(*end_->exit_code, text_.beginning(), options_.agent_path);
    return explain_login_failure("libssh", end_->error.message, target_.host);
  }

  std::optional<AgentLack> lack() const override {
    if (fallback_) return fallback_->lack();
    if (!end_ || !end_->exit_code) return std::nullopt;
    return find_lack(*end_->exit_code, text_.beginning(), options_.agent_path);
  }

  std::string connection_failure() const override {
    if (fallback_) return fallback_->connection_failure();
    return end_ && end_->was_lost && !shared_->is_cut() ? "libssh: " + end_->error.message
                                                        : std::string();
  }
  bool network_failed() const override {
    return fallback_ ? fallback_->network_failed() : !connection_failure().empty();
  }

  bool wait() override {
    next_login_.cancel();
    if (fallback_) return fallback_->wait();
    if (end_ && !end_->exit_code && !end_->was_lost) return false;
    {
      std::unique_lock lock(shared_->mutex);
      shared_->changed.wait_for(lock, kEndTimeout, [this] { return shared_->ended; });
    }
    cut();
    mailbox_.drain();
    if (fallback_) return fallback_->wait();
    return end_ && end_->exit_code == kExitOk;
  }

 private:
  // Runs in the thread. What it posts runs only while the owner exists.
  static void run(LibsshAgent* owner, const std::shared_ptr<Shared>& shared, Task task) {
    const auto post = [shared](std::function<void()> call) {
      const std::lock_guard lock(shared->mutex);
      if (shared->mailbox != nullptr) shared->mailbox->post(std::move(call));
    };
    Login login(shared, std::move(task), [owner, post](const std::string& text) {
      post([owner, text] { owner->text_.add(text); });
    });
    auto end = std::make_shared<End>(login.run());
    post([owner, end] { owner->on_end(std::move(*end)); });
    const std::lock_guard lock(shared->mutex);
    shared->socket.reset();
    shared->ended = true;
    shared->changed.notify_all();
  }

  void cut() {
    {
      const std::lock_guard lock(shared_->mutex);
      shared_->cut = true;
      ::shutdown(shared_->socket.get(), SHUT_RDWR);
      shared_->changed.notify_all();
    }
    gate_->wake();
  }

  void on_thread_hangs() {
    ::shutdown(stream_->get(), SHUT_RDWR);
    on_end({});
  }

  // Takes the thread's result, or nothing from a thread that hangs.
  void on_end(End end) {
    if (end_) return;
    thread_hangs_.cancel();
    if (end.ssh_may_succeed && use_ != SshUse::libssh && !shared_->is_cut()) {
      place_ = std::move(end.place);
      logins_ = end.logins;
      error_ = std::move(end.error);
      return start_ssh();
    }
    end.stream.reset();
    stream_.reset();
    end_ = std::move(end);
    text_.end();
    events_.on_end();
  }

  // ssh does not read the stream before it has logged in, so that another ssh can have it.
  void start_ssh() {
    const auto facts = ssh_facts();
    SshOptions options = options_;
    options.direct = facts.direct;
    options.overrides = facts.overrides;
    Fd stream(::fcntl(stream_->get(), F_DUPFD_CLOEXEC, 0));
    auto started = start_ssh_agent(loop_, target_, options, arguments_,
                                   {events_.on_link, events_.on_text, [this] { on_ssh_end(); }},
                                   std::move(stream));
    if (!started) return finish();
    fallback_ = std::move(*started);
    ++logins_;
  }

  void on_ssh_end() {
    if (!fallback_->was_cut_before_login() || logins_ >= kMostLogins || shared_->is_cut())
      return finish();
    next_login_.start(pause_after(logins_));
  }

  // Ends a channel that has no thread any more.
  void finish() {
    next_login_.cancel();
    stream_.reset();
    place_.leave();
    end_.emplace();
    end_->error = std::move(error_);
    text_.end();
    events_.on_end();
  }

  const EventLoop& loop_;
  const std::shared_ptr<LoginGate> gate_;
  const SshTarget target_;
  const SshOptions options_;
  const std::vector<std::string> arguments_;
  const SshUse use_;
  std::shared_ptr<const Fd> stream_;  // the agent's end of the link, until the login has succeeded
  const Events events_;
  TextLines text_;  // what the command has printed on stderr
  Mailbox mailbox_;
  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::optional<End> end_;
  std::unique_ptr<AgentChannel> fallback_;  // the system's ssh, once it was started
  LoginGate::Place place_;
  Error error_;     // why libssh was not enough
  int logins_ = 0;  // that were tried
  bool was_reached_ = false;
  Timer thread_hangs_;
  Timer next_login_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<AgentChannel>> start_libssh_agent(
    const EventLoop& loop, std::shared_ptr<LoginGate> gate, SshTarget target, SshOptions options,
    std::vector<std::string> arguments, SshUse use, const AgentChannel::Events& events) {
  HVD_TRY(LinkPair link, make_local_link());
  Task task{std::move(gate),
            std::move(target),
            std::move(options),
            std::move(arguments),
            std::make_shared<const Fd>(std::move(link.agent.in)),
            use};
  auto agent = std::make_unique<LibsshAgent>(loop, std::move(task), events);
  link.launcher.text_first = true;
  events.on_link(std::move(link.launcher));
  return agent;
}

}  // namespace hvdrun
