#include "placement/slurm_shape.hpp"

#include "base/counted.hpp"
#include "placement/rank_counts.hpp"

#include <fmt/format.h>

namespace hvdrun {

namespace {

void add_missing_gpus(const JobSpec& spec, const Host& host, HostNotes& notes) {
  if (!host.inventory || spec.gpu_bind == GpuBind::none) return;
  const std::size_t visible = host.inventory->gpus.size();
  const int promised = host.slurm.gpus.value_or(0);
  if (visible >= static_cast<std::size_t>(promised)) return;
  notes.add(host.name, "SLURM says that ",
            fmt::format(" has {} ({}), but {} visible there", counted(promised, "GPU"),
                        host.slurm.gpus_source,
                        visible == 0   ? "none is"
                        : visible == 1 ? "1 is"
                                       : fmt::format("{} are", visible)));
}

}  // namespace

void add_slurm_notes(const JobSpec& spec, const Host& host, std::size_t ranks, HostNotes& notes) {
  add_missing_gpus(spec, host, notes);
  if (spec.ranks || spec.ranks_per_host || !host.slurm.tasks || !gpus_count(spec, host)) return;
  const int tasks = *host.slurm.tasks;
  const int gpus = count_gpus(host);
  if (tasks == gpus) return;
  if (tasks == 1) {
    notes.add(
        host.name, "SLURM was asked for 1 task on ",
        fmt::format(", where there {} {}; hvdrun starts one rank for each; --ranks-per-host 1 "
                    "starts one a host",
                    gpus == 1 ? "is" : "are", counted(gpus, "GPU")));
    return;
  }
  notes.add(host.name, fmt::format("SLURM was asked for {} tasks on ", tasks),
            fmt::format(", where there {} {}; hvdrun starts one rank per GPU, {}. To have SLURM "
                        "give CPUs for that: #SBATCH --gpus-per-node={} --ntasks-per-node={}; to "
                        "have {} ranks: --ranks-per-host {}{}",
                        gpus == 1 ? "is" : "are", counted(gpus, "GPU"), ranks, gpus, gpus, tasks,
                        tasks, tasks > gpus ? " --oversubscribe" : ""));
}

}  // namespace hvdrun
