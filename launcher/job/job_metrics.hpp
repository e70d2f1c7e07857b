// --metrics: the job's numbers for Prometheus, at a port or in a file that is replaced every 10
// seconds. The file is removed when the job ends, so that no old numbers stay.
//
// The job's view owns it, on the loop thread. A port that is in use, or a file that cannot be
// written, is a warning: the job runs all the same. The file is written by a thread, because its
// file system may hang; what comes meanwhile is left out.
#pragma once

#include "base/event_loop.hpp"
#include "control/metrics_server.hpp"
#include "model/job_spec.hpp"

#include <functional>
#include <memory>
#include <string>

namespace hvdrun {

class JobMetrics {
 public:
  // `note` shows the user a line. Both functions must outlive the object.
  JobMetrics(const EventLoop& loop, const MetricsSpec& spec, MetricsServer::Ask ask,
             std::function<void(const std::string&)> note);
  ~JobMetrics();
  JobMetrics(const JobMetrics&) = delete;
  JobMetrics& operator=(const JobMetrics&) = delete;

 private:
  struct Writer;
  void write_soon();
  void write(const JobNow& now);

  const MetricsServer::Ask ask_;
  const std::function<void(const std::string&)> note_;
  std::unique_ptr<MetricsServer> server_;
  std::shared_ptr<Writer> writer_;  // shared with its thread, which may outlive us
  bool has_begun_ = false;
  bool has_warned_ = false;
  Timer timer_;
};

}  // namespace hvdrun
