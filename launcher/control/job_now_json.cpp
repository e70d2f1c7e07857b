#include "control/job_now_json.hpp"

#include "control/text_json.hpp"

#include <tuple>

namespace hvdrun {

inline constexpr auto fields_of(const JobAbout*) {
  using T = JobAbout;
  using json_fields::field;
  return std::tuple(field("id", &T::id), field("pid", &T::pid), field("version", &T::version),
                    field("scheduler", &T::scheduler), field("scheduler_job", &T::scheduler_job),
                    field("command", &T::command), field("folder", &T::folder),
                    field("begun", &T::begun), field("phase", &T::phase), field("ranks", &T::ranks),
                    field("spares", &T::spares), field("lost", &T::lost),
                    field("ranks_in_all", &T::ranks_in_all), field("hosts", &T::hosts),
                    field("restarts", &T::restarts), field("output_folder", &T::output_folder));
}

inline constexpr auto fields_of(const HostGpuNow*) {
  using T = HostGpuNow;
  using json_fields::field;
  return std::tuple(
      field("uuid", &T::uuid), field("device", &T::device), field("busy_percent", &T::busy_percent),
      field("memory_bytes", &T::memory_bytes), field("memory_in_all", &T::memory_in_all),
      field("celsius", &T::celsius), field("watts", &T::watts));
}

inline constexpr auto fields_of(const HostNow*) {
  using T = HostNow;
  using json_fields::field;
  return std::tuple(field("host", &T::host), field("state", &T::state), field("clock", &T::clock),
                    field("ranks", &T::ranks), field("gpus", &T::gpus));
}

inline constexpr auto fields_of(const RankNow*) {
  using T = RankNow;
  using json_fields::field;
  return std::tuple(
      field("rank", &T::rank), field("host", &T::host), field("pid", &T::pid),
      field("state", &T::state), field("role", &T::role), field("end", &T::end),
      field("succeeded", &T::succeeded), field("gpu", &T::gpu), field("epoch", &T::epoch),
      field("epochs", &T::epochs), field("step", &T::step), field("steps", &T::steps),
      field("samples", &T::samples), field("samples_per_second", &T::samples_per_second),
      field("since_progress", &T::since_progress), field("loss", &T::loss),
      field("collective_seconds", &T::collective_seconds),
      field("waiting_seconds", &T::waiting_seconds), field("collective", &T::collective),
      field("in_collective_seconds", &T::in_collective_seconds),
      field("cpu_seconds", &T::cpu_seconds), field("memory_bytes", &T::memory_bytes),
      field("processes", &T::processes));
}

inline constexpr auto fields_of(const WaitNow*) {
  using T = WaitNow;
  using json_fields::field;
  return std::tuple(field("text", &T::text), field("collective", &T::collective),
                    field("seconds", &T::seconds), field("waiting", &T::waiting),
                    field("missing", &T::missing));
}

inline constexpr auto fields_of(const JobNow*) {
  using T = JobNow;
  using json_fields::field;
  return std::tuple(field("job", &T::about), field("seconds", &T::seconds),
                    field("hosts", &T::hosts), field("ranks", &T::ranks),
                    field("waits", &T::waits));
}

ControlJson to_json(const JobAbout& about) {
  return text_json::write(about);
}

JobAbout job_about_from(const ControlJson& json) {
  JobAbout about;
  text_json::read(json, about);
  return about;
}

ControlJson to_json(const JobNow& now) {
  return text_json::write(now);
}

JobNow job_now_from(const ControlJson& json) {
  JobNow now;
  text_json::read(json, now);
  return now;
}

}  // namespace hvdrun
