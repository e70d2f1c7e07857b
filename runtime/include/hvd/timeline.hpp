// The timeline, for C++20: hvd/timeline.h with exceptions. Header only.
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

// Collective. The path is rank 0's.
inline void start_timeline(const std::string& path) {
  detail::check(hvd_start_timeline(path.c_str()));
}
// Collective.
inline void stop_timeline() {
  detail::check(hvd_stop_timeline());
}

// A part of the program that the timeline shows, as long as it lives; on one thread. Outside of
// hvd::init() and hvd::shutdown() it does nothing.
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
