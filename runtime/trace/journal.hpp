// What a rank has recorded so far, in a file that is a timeline at every moment: what is left when
// the rank is killed.
//
// The file is an array of events that is not closed, which viewers take ("Trace Event Format",
// Google: in the JSON Array Format the "]" is optional). A thread of its own appends to it a few
// times a second, so that a slow or full disk costs events of the journal, not time of the program.
// No event crosses a page and no write(2) does: the kernel can leave a killed process's write
// unfinished between two pages only, so that the last event is whole, too.
#pragma once

#include "base/result.hpp"
#include "common/fd.hpp"
#include "trace/recorder.hpp"
#include "trace/trace_writer.hpp"

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
  // A new file in the place of what is there. Error: there can be none.
  static Result<std::unique_ptr<TraceJournal>> create(const std::string& path);

  ~TraceJournal() { stop(); }
  TraceJournal(const TraceJournal&) = delete;
  TraceJournal& operator=(const TraceJournal&) = delete;

  // Begins to write what is recorded from now on. Once. Without a thread it stays empty.
  void start(std::shared_ptr<Recorder> recorder, RankView view);
  // Writes the rest. The file stays.
  void stop();

  // After stop(): the file is of no more use.
  void remove();

 private:
  TraceJournal(std::string path, Fd file) : path_(std::move(path)), file_(std::move(file)) {}

  void run();
  bool write_new();
  void append(std::string_view event);
  void flush();

  const std::string path_;
  Fd file_;  // none: it could not be written any more
  std::shared_ptr<Recorder> recorder_;
  RankView view_;
  Recording read_;  // the names so far, and the events of one reading
  TraceProgress progress_;
  std::string page_;       // what is not written yet, of one page
  std::uint64_t end_ = 1;  // of the file, with that; the first byte is there from the beginning
  std::mutex mutex_;       // guards the next
  bool stop_ = false;
  std::condition_variable stopping_;
  std::thread thread_;
};

}  // namespace libhvd
