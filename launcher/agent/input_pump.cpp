#include "agent/input_pump.hpp"

#include <cerrno>
#include <utility>

namespace hvdrun {

InputPump::InputPump(const EventLoop& loop, Fd pipe, std::function<void(std::size_t)> on_written)
    : pipe_(std::move(pipe)),
      event_(loop, pipe_.get(), FdEvent::writable, [this] { write_out(); }),
      on_written_(std::move(on_written)) {}

void InputPump::write(std::string_view bytes) {
  if (!pipe_) return on_written_(bytes.size());  // the rank reads no more: dropped
  waiting_ += bytes;
  if (!event_.enabled()) write_out();
}

void InputPump::close() {
  closing_ = true;
  if (waiting_.empty()) {
    event_.reset();
    pipe_.reset();
  }
}

void InputPump::write_out() {
  const ssize_t put = ::write(pipe_.get(), waiting_.data(), waiting_.size());
  if (put < 0 && (errno == EAGAIN || errno == EINTR)) return event_.enable();
  // The rank has closed its stdin (EPIPE): what waits is dropped, as a shell's pipe would.
  const std::size_t gone = put < 0 ? waiting_.size() : static_cast<std::size_t>(put);
  waiting_.erase(0, gone);
  if (!waiting_.empty()) {
    event_.enable();
  } else {
    event_.disable();
    if (put < 0 || closing_) {
      event_.reset();
      pipe_.reset();
    }
  }
  on_written_(gone);
}

}  // namespace hvdrun
