// What each agent is asked to start. Functions of the job, its placement and what agents answered;
// they change nothing.
#pragma once

#include "base/result.hpp"
#include "base/terminal.hpp"
#include "common/agent_messages.hpp"
#include "job/job_context.hpp"
#include "job/plan.hpp"
#include "job/rank_environment.hpp"
#include "model/job_spec.hpp"
#include "protocol/messages.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

// Returns the ranks that read hvdrun's stdin.
std::vector<int> input_receivers(const JobSpec& spec, int size);

// Returns whether the one rank that reads hvdrun's stdin, a pipe, gets that pipe itself. It must
// run on this host, and the job must have no restarts. Then what it does not read stays in the
// pipe, for hvdrun's caller.
bool inherits_input(const JobSpec& spec, const Plan& plan);

class Agents;

// Returns whether each agent holds as many ports as its ranks need.
bool hold_all_ports(Agents& agents, const JobSpec& spec, const Placement& placement);

// Returns the ports that the agents hold, by host. `addresses`: of the hosts, in the same order.
RankPorts ports_of(Agents& agents, std::vector<std::string> addresses);

// Returns the message for the agent of one host. `interfaces`: those of --network-interface there.
// `terminal`: the settings of hvdrun's terminal, for the rank that has it.
LaunchMessage launch_message(const JobSpec& spec, const Plan& plan, const JobIdentity& identity,
                             const JobContext& context, std::size_t host_index,
                             const std::vector<std::string>& interfaces = {},
                             const std::optional<TerminalSettings>& terminal = {});

// Makes it the message for an agent that was started again: it gets its ranks later. It was
// executed on the launcher's host, too, and has the launcher's limits.
void leave_out_ranks(const JobContext& context, LaunchMessage& message);

// Returns what an agent is asked to start while the job runs. `place`: its slot, and as its rank
// the process's number. `numbers`: those that it is likely to have.
LaunchRank new_rank(const JobSpec& spec, const Plan& plan, const JobIdentity& identity,
                    const JobContext& context, std::size_t host_index, const RankPlacement& place,
                    const common::MemberNumbers& numbers);

// Returns what the agent of a host has seen of GPUs, with the names that people see
// (GpuUse::device).
std::vector<GpuUse> with_device_names(std::vector<GpuUse> uses, const Host& host);

// Returns the message as the payload of a frame. `host`: for the error. Error (kExitUsage): it is
// larger than a frame may be.
Result<std::string> pack_for(const std::string& host, const LaunchMessage& message);

}  // namespace hvdrun
