// The timeline, for C++20: hvd/timeline.h with exceptions (hvd::Error). Header only.
//
//   {
//     hvd::Span span("load data");
//     batch = loader.next();
//   }
#ifndef HVD_TIMELINE_HPP_
#define HVD_TIMELINE_HPP_

#include "hvd/hvd.hpp"
#include "hvd/timeline.h"

#include <string>

namespace hvd {

// Begins to record on all ranks. Only rank 0 uses the path. A collective.
inline void start_timeline(const std::string& path) {
  detail::check(hvd_start_timeline(path.c_str()));
}
// Ends the timeline and writes the file. A collective.
inline void stop_timeline() {
  detail::check(hvd_stop_timeline());
}

// A span in the timeline, from the constructor to the destructor, on one thread. Does nothing
// before hvd::init() and after hvd::shutdown(). Never throws.
class Span {
 public:
  explicit Span(const char* name) : begun_(hvd_timeline_begin(name) == HVD_OK) {}
  explicit Span(const std::string& name) : Span(name.c_str()) {}
  ~Span() {
    if (begun_) hvd_timeline_end();
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

 private:
  bool begun_;
};

}  // namespace hvd

#endif  // HVD_TIMELINE_HPP_
