// A scheduler whose jobs say in variables, or in files that variables name, which hosts they have.
// A row of data describes it.
//
// For any thread. It reads a file with the hosts when it is asked for the job. A variable or a file
// that cannot be read leaves the hosts unknown.
#pragma once

#include "scheduler/scheduler.hpp"

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace hvdrun {

// The form of a list of hosts.
enum class HostListForm {
  none,   // there is no list
  lines,  // a file with a host in each line, once for each slot
  slots,  // a file with "HOST SLOTS …" in each line
  words,  // "n1 n1 n2 n2"
  pairs,  // "n1 4 n2 4"
};

struct HostList {
  HostListForm form = HostListForm::none;
  std::string_view variable;  // with the hosts, or with the file's name
};

struct SchedulerRow {
  std::string_view name;
  // Variables of a job, of which it has one at least. Nothing else sets them.
  std::array<std::string_view, 2> signs;
  std::string_view id;            // the variable with the job's number; empty: there is none
  std::array<HostList, 3> lists;  // the first that names hosts is used
  std::string_view count;         // the variable with the number of hosts; empty: there is none
  std::string_view to_type = {};  // for all hosts, if there is no list
  SchedulerVariables variables = {};
};

class VariableScheduler final : public Scheduler {
 public:
  explicit VariableScheduler(const SchedulerRow& row) : row_(row) {}

  std::string_view name() const override { return row_.name; }
  std::optional<std::string> job_id(const Environment& environment) const override;
  // Gives a host the tasks that the list names, if it names a number or the host several times.
  Result<ScheduledJob> read_job(const Environment& environment, bool whole,
                                const Ask& ask) const override;
  SchedulerVariables variables() const override { return row_.variables; }

 private:
  const SchedulerRow row_;
};

}  // namespace hvdrun
