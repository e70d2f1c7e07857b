// Keeps a file with what a rank has recorded so far. The file is a timeline at every moment, so it
// remains when the rank is killed.
//
// The file is an array of events that is not closed; viewers accept that (Source: "Trace Event
// Format", Google: in the JSON Array Format the "]" is optional). A thread of its own appends to
// the file twenty times a second. A slow or full disk therefore loses events of the journal, but
// takes no time from the program. No event and no write(2) crosses a page: the kernel can leave a
// killed process's write unfinished only between two pages, so the last event is whole.
#pragma once

#include "base/error.hpp"
#include "common/fd.hpp"
#include "trace/recorder.hpp"
#include "trace/trace_text.hpp"

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace libhvd {

class TraceJournal {
 public:
  // Creates a new file and removes an old one of that name. Error: the file cannot be created.
  static Result<std::unique_ptr<TraceJournal>> create(const std::string& path);

  ~TraceJournal() { stop(); }
  TraceJournal(const TraceJournal&) = delete;
  TraceJournal& operator=(const TraceJournal&) = delete;

  // Writes what is recorded from now on. Call it once. If no thread can be started, the file stays
  // empty.
  void start(std::shared_ptr<Recorder> recorder, RankView view);
  // Writes the rest and ends the thread. The file stays.
  void stop();

  // Removes the file. Call it after stop().
  void remove();

 private:
  TraceJournal(std::string path, Fd file) : path_(std::move(path)), file_(std::move(file)) {}

  void run();
  bool write_new();
  void append(std::string_view event);
  void flush();

  const std::string path_;
  Fd file_;  // closed after the first error
  std::shared_ptr<Recorder> recorder_;
  RankView view_;
  Recording read_;  // all names so far, and the events of the last reading
  TraceProgress progress_;
  std::string page_;       // what is not written yet, within one page
  std::uint64_t end_ = 1;  // the length of file and page_ together; create() writes the first byte
  std::mutex mutex_;       // guards stop_
  bool stop_ = false;
  std::condition_variable stopping_;
  std::thread thread_;
};

}  // namespace libhvd
