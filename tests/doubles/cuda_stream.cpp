// Implements streams as threads and events as counters.
#include "cuda_double.hpp"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

namespace cuda_double {
namespace {

class Stream {
 public:
  Stream() : thread_([this] { run(); }) {}

  // Runs the remaining operations first, as cudaStreamDestroy does.
  ~Stream() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void add(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      work_.push_back(std::move(work));
    }
    changed_.notify_all();
  }

  void wait_until_idle() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return idle(); });
  }

  bool is_idle() {
    const std::lock_guard lock(mutex_);
    return idle();
  }

 private:
  bool idle() const { return work_.empty() && !busy_; }

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return ended_ || !work_.empty(); });
      if (work_.empty()) return;
      const std::function<void()> work = std::move(work_.front());
      work_.pop_front();
      busy_ = true;
      lock.unlock();
      work();
      lock.lock();
      busy_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool busy_ = false;
  bool ended_ = false;
  std::thread thread_;  // last, since it uses all members above
};

// Shared with operations on streams, which may outlive the event.
struct Marks {
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t recorded = 0;
  std::uint64_t happened = 0;
};
using Event = std::shared_ptr<Marks>;

Stream& of(void* stream) {
  static auto* const default_stream = new Stream;
  return stream == nullptr ? *default_stream : *static_cast<Stream*>(stream);
}

Marks& marks_of(void* event) {
  return **static_cast<Event*>(event);
}

}  // namespace

int enqueue(void* stream, std::function<void()> work) {
  of(stream).add(std::move(work));
  return kSuccess;
}

int create_stream(void** stream) {
  *stream = new Stream;
  return kSuccess;
}

int destroy_stream(void* stream) {
  delete static_cast<Stream*>(stream);
  return kSuccess;
}

int synchronize(void* stream) {
  of(stream).wait_until_idle();
  return kSuccess;
}

bool is_idle(void* stream) {
  return of(stream).is_idle();
}

int create_event(void** event) {
  *event = new Event(std::make_shared<Marks>());
  return kSuccess;
}

int destroy_event(void* event) {
  delete static_cast<Event*>(event);
  return kSuccess;
}

int record(void* event, void* stream) {
  const Event own = *static_cast<Event*>(event);
  std::uint64_t mark = 0;
  {
    const std::lock_guard lock(own->mutex);
    mark = ++own->recorded;
  }
  return enqueue(stream, [own, mark] {
    const std::lock_guard lock(own->mutex);
    own->happened = mark;
    own->changed.notify_all();
  });
}

int wait_for(void* stream, void* event) {
  const Event own = *static_cast<Event*>(event);
  std::uint64_t mark = 0;
  {
    const std::lock_guard lock(own->mutex);
    mark = own->recorded;
  }
  return enqueue(stream, [own, mark] {
    std::unique_lock lock(own->mutex);
    own->changed.wait(lock, [&] { return own->happened >= mark; });
  });
}

bool has_happened(void* event) {
  Marks& marks = marks_of(event);
  const std::lock_guard lock(marks.mutex);
  return marks.happened == marks.recorded;
}

}  // namespace cuda_double
