// A job's numbers as text for Prometheus: what `hvdrun top` shows, by rank.
//
// Names follow Prometheus' rules: base units, the unit and "_total" at the end. Every sample has
// job_id, so that several jobs may be on one machine. What is not known is left out. Pure
// functions, for any thread.
//
// Sources: "Exposition formats" of Prometheus (text format 0.0.4); OpenMetrics 1.0.0.
#pragma once

#include "model/job_now.hpp"

#include <string>
#include <string_view>

namespace hvdrun {

enum class MetricsFormat {
  prometheus,   // node_exporter's textfile collector reads it
  openmetrics,  // counters are named without "_total" in # TYPE, and the text has an end
};

std::string metrics_text(const JobNow& now, MetricsFormat format);

// Returns the format's media type, for HTTP.
std::string_view media_type(MetricsFormat format);

// Returns the format for the value of an HTTP request's Accept.
MetricsFormat metrics_format_for(std::string_view accept);

}  // namespace hvdrun
