// Work that one rank does for all, and files, for C++20: hvd/io.h with owners and exceptions
// (hvd::Error). Header only.
//
//   const auto vocabulary = hvd::on_rank0([] { return read_vocabulary("words.txt"); });
//   hvd::Log log("train.log");                      // one file, written by rank 0
//   log << "epoch " << epoch << " loss " << loss << std::endl;
//   std::ofstream mine(hvd::rank_path("samples-{rank}.txt"));
//   hvd::write_file("result.json", text);           // appears whole, or not at all
#ifndef HVD_IO_HPP_
#define HVD_IO_HPP_

#include "hvd/hvd.hpp"
#include "hvd/io.h"

#include <array>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <streambuf>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace hvd {
namespace detail {

template <class T>
struct is_vector : std::false_type {};
template <class T>
struct is_vector<std::vector<T>> : std::bool_constant<std::is_trivially_copyable_v<T>> {};
template <>
struct is_vector<std::vector<bool>> : std::false_type {};

template <class T>
concept Shareable = std::is_void_v<T> || std::is_trivially_copyable_v<T> ||
    std::same_as<T, std::string> || is_vector<T>::value;

// Runs a body for hvd_on_root and keeps its value, or the exception that it threw.
template <class Body, class Value>
struct RootRun {
  Body& body;
  Value value;
  std::exception_ptr thrown;
  std::string text;

  static hvd_status call(void* argument, const char** error) {
    auto& run = *static_cast<RootRun*>(argument);
    const hvd_status status = run.start();
    *error = run.text.c_str();
    return status;
  }

  hvd_status start() {
    try {
      if constexpr (std::is_void_v<std::invoke_result_t<Body>>) {
        body();
      } else {
        value = body();
      }
      return HVD_OK;
    } catch (const Error& problem) {
      return keep(problem.status(), problem.what());
    } catch (const std::exception& exception) {
      return keep(HVD_ERROR_ROOT, exception.what());
    } catch (...) {
      return keep(HVD_ERROR_ROOT, "an exception of an unknown type");
    }
  }

  hvd_status keep(hvd_status status, const char* what) {
    thrown = std::current_exception();
    text = what;
    return status;
  }
};

template <class T>
void broadcast_value(T& value, const std::string& name) {
  if constexpr (std::is_trivially_copyable_v<T>) {
    broadcast(std::span(reinterpret_cast<std::uint8_t*>(&value), sizeof value), 0, name);
  } else {
    const auto count = broadcast(static_cast<std::int64_t>(value.size()), 0, name);
    value.resize(static_cast<std::size_t>(count));
    broadcast(std::span(reinterpret_cast<std::uint8_t*>(value.data()),
                        value.size() * sizeof(typename T::value_type)),
              0, name);
  }
}

}  // namespace detail

// Runs `body` on rank 0 only, while the others wait. Returns its result on all ranks: void, a
// string, a trivially copyable value or a vector of such; default constructible. If `body` throws,
// all ranks throw: rank 0 the same exception, the others an Error with its text ("rank 0: ...").
// The Error has the status HVD_ERROR_ROOT, or that of an hvd::Error that `body` threw. A
// collective. `body` must not call collectives.
template <class Body>
requires detail::Shareable<std::invoke_result_t<Body>>
auto on_rank0(Body&& body, const std::string& name = "on_rank0") {
  using Value = std::invoke_result_t<Body>;
  constexpr bool kVoid = std::is_void_v<Value>;
  using Kept = std::conditional_t<kVoid, char, Value>;
  detail::RootRun<Body, Kept> run{body, {}, nullptr, {}};
  const hvd_options options = detail::named(name);
  const hvd_status shared = hvd_on_root(&run.call, &run, 0, &options);
  if (run.thrown) std::rethrow_exception(run.thrown);
  detail::check(shared);
  if constexpr (!kVoid) {
    detail::broadcast_value(run.value, name);
    return std::move(run.value);
  }
}

namespace detail {

// Passes text to the log as it is written to the stream: whole strings, or characters up to a
// newline or a flush.
class LogBuffer : public std::streambuf {
 public:
  explicit LogBuffer(const std::string& path) {
    const std::string name = "log " + path;
    const hvd_options options = named(name);
    hvd_log* log = nullptr;
    check(hvd_log_open(path.c_str(), &log, &options));
    log_.reset(log);
  }
  ~LogBuffer() override { LogBuffer::sync(); }

 protected:
  int_type overflow(int_type byte) override {
    if (traits_type::eq_int_type(byte, traits_type::eof())) return traits_type::not_eof(byte);
    buffer_ += traits_type::to_char_type(byte);
    return byte == '\n' && sync() != 0 ? traits_type::eof() : byte;
  }
  std::streamsize xsputn(const char* text, std::streamsize count) override {
    buffer_.append(text, static_cast<std::size_t>(count));
    return sync() == 0 ? count : 0;
  }
  int sync() override {
    const hvd_status status = hvd_log_write(log_.get(), buffer_.data(), buffer_.size());
    buffer_.clear();
    return status == HVD_OK ? 0 : -1;
  }

 private:
  struct Close {
    void operator()(hvd_log* log) const { hvd_log_close(log); }
  };
  std::string buffer_;
  std::unique_ptr<hvd_log, Close> log_;
};

}  // namespace detail

// A log file that rank 0 writes, each line with the time before it. Other ranks drop the text. The
// constructor is a collective, and throws on all ranks if rank 0 cannot open the file. Writing is
// not a collective and does not throw: a full disk sets badbit on rank 0, as with any stream, and
// after clear() the log can be used again.
class Log : private detail::LogBuffer, public std::ostream {
 public:
  explicit Log(const std::string& path)
      : detail::LogBuffer(path), std::ostream(static_cast<std::streambuf*>(this)) {}
};

// Returns a path of this rank's own from a pattern. See hvd_rank_path.
inline std::string rank_path(const std::string& pattern) {
  std::array<char, 4096> path{};
  detail::check(hvd_rank_path(pattern.c_str(), path.data(), path.size()));
  return path.data();
}

// A file that appears whole or not at all; see hvd_file. Without commit() nothing is left of it.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path) {
    hvd_file* file = nullptr;
    detail::check(hvd_file_create(path.c_str(), &file));
    file_.reset(file);
  }
  void write(std::string_view data) {
    detail::check(hvd_file_write(file_.get(), data.data(), data.size()));
  }
  void commit() { detail::check(hvd_file_commit(file_.release())); }

 private:
  struct Discard {
    void operator()(hvd_file* file) const { hvd_file_discard(file); }
  };
  std::unique_ptr<hvd_file, Discard> file_;
};

// Writes a whole file, which replaces one of that name at once. See hvd_file.
inline void write_file(const std::string& path, std::string_view data) {
  AtomicFile file(path);
  file.write(data);
  file.commit();
}

}  // namespace hvd

#endif  // HVD_IO_HPP_
