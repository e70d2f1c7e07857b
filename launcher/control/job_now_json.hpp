// What a job says of itself (JobAbout) and does (JobNow) as JSON. Pure functions, for any thread.
// What is missing, or of another type, keeps its default.
#pragma once

#include "control/control_message.hpp"
#include "model/job_now.hpp"

namespace hvdrun {

ControlJson to_json(const JobAbout& about);
JobAbout job_about_from(const ControlJson& json);

ControlJson to_json(const JobNow& now);
JobNow job_now_from(const ControlJson& json);

}  // namespace hvdrun
