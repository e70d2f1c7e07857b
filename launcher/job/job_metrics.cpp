#include "job/job_metrics.hpp"

#include "base/new_file.hpp"
#include "base/severity.hpp"
#include "base/system.hpp"

#include <chrono>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr std::chrono::milliseconds kWriteInterval{10'000};
// Until all ranks run, and after the first time, so that the user learns soon why it has failed.
constexpr std::chrono::milliseconds kStartInterval{1000};

}  // namespace

struct JobMetrics::Writer {
  explicit Writer(std::filesystem::path its_file) : file(std::move(its_file)) {}

  const std::filesystem::path file;
  std::mutex mutex;  // of all that follows
  bool writes = false;
  bool is_there = false;  // the file is ours
  bool over = false;
  std::string failure;

  void write(const std::string& text) {
    auto made = NewFile::create(file, "cannot write " + file.string() + " (--metrics)");
    const auto done = made ? made->commit(text) : Result<void>(made.error());
    const std::lock_guard lock(mutex);
    writes = false;
    is_there = is_there || done;
    failure = done ? "" : done.error().message;
    if (over) remove();
  }

  // Leaves a device, a pipe and a link alone: those are not ours.
  void remove() const {
    std::error_code ignored;
    const auto kind = std::filesystem::symlink_status(file, ignored);
    if (is_there && std::filesystem::is_regular_file(kind)) ::unlink(file.c_str());
  }
};

JobMetrics::JobMetrics(const EventLoop& loop, const MetricsSpec& spec, MetricsServer::Ask ask,
                       std::function<void(const std::string&)> note)
    : ask_(std::move(ask)), note_(std::move(note)), timer_(loop, [this] { write_soon(); }) {
  if (spec.port) {
    auto server = MetricsServer::start(loop, *spec.port, ask_);
    if (server) {
      server_ = std::move(*server);
      note_(fmt::format("metrics: http://127.0.0.1:{}/metrics", server_->port()));
    } else {
      note_(warning_text(server.error().message));
    }
  } else if (!spec.file.empty()) {
    std::error_code error;  // without a working folder the name stays as it is
    const auto file = std::filesystem::absolute(spec.file, error);
    writer_ = std::make_shared<Writer>(error ? spec.file : file);
    write_soon();
  }
}

JobMetrics::~JobMetrics() {
  if (!writer_) return;
  const std::lock_guard lock(writer_->mutex);
  writer_->over = true;
  if (!writer_->writes) writer_->remove();
}

void JobMetrics::write_soon() {
  timer_.start(kWriteInterval);
  ask_([this, writer = std::weak_ptr<Writer>(writer_)](const JobNow& now) {
    if (const auto lives = writer.lock(); lives && !lives->over) write(now);
  });
}

void JobMetrics::write(const JobNow& now) {
  if (!std::exchange(has_begun_, true) || now.about.phase == "starting")
    timer_.start(kStartInterval);
  std::string failure;
  {
    const std::lock_guard lock(writer_->mutex);
    failure = std::exchange(writer_->failure, {});
    if (std::exchange(writer_->writes, true)) return;  // the last one hangs
  }
  if (!failure.empty() && !std::exchange(has_warned_, true)) note_(warning_text(failure));
  auto thread = start_thread(
      "writes metrics", [writer = writer_, text = metrics_text(now, MetricsFormat::prometheus)] {
        writer->write(text);
      });
  if (thread) return thread->detach();
  const std::lock_guard lock(writer_->mutex);
  writer_->writes = false;
}

}  // namespace hvdrun
