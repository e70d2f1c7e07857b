/* libhvd: the timeline, a file that shows what all ranks did and when; open it in ui.perfetto.dev.
 * The C ABI; see hvd.h for statuses and errors, docs/debug/timeline.md for how to read the file.
 *
 * The timeline has every collective with its name, bytes and type, how long it waited and for which
 * rank; the steps of the training (hvd_set_step); and the program's own spans. To record a
 * collective takes well under a microsecond. Each rank records into HVD_TIMELINE_MB megabytes of
 * memory (default 64). When these are full it drops later events; the file says so.
 *
 * The ranks send nothing to each other until the end. Until then a thread of each rank writes what
 * the rank has recorded to a file: FILE on rank 0, FILE.rank<R> on the others. The file of a rank
 * that is killed remains.
 *
 * HVD_TIMELINE=FILE in the environment of all ranks (hvdrun --timeline-filename FILE) starts the
 * timeline in hvd_init and ends it in hvd_shutdown, which then waits up to 30 seconds for the other
 * ranks.
 *
 * If a rank has died, or the program exits without hvd_shutdown, each rank completes its own file
 * and says so on stderr.
 */
#ifndef HVD_TIMELINE_H_
#define HVD_TIMELINE_H_

#include "hvd/hvd.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A collective: begins to record on all ranks. Only rank 0 uses `path`; it will write the file, and
 * replaces a plain file of that name. On all ranks HVD_ERROR_INVALID_ARGUMENT: a timeline runs
 * already, or the path is null or not a plain file; HVD_ERROR_SYSTEM: rank 0 cannot write there. */
HVD_API hvd_status hvd_start_timeline(const char* path);

/* A collective: ends the timeline. Rank 0 has written the file when this returns.
 * HVD_ERROR_INVALID_ARGUMENT: no timeline runs. HVD_ERROR_SYSTEM on all ranks: rank 0 could not
 * write the file. */
HVD_API hvd_status hvd_stop_timeline(void);

/* Begin and end a span of the program, such as "load data", on one thread. Spans may enclose others
 * and end in the reverse order of their begins. `name` is UTF-8; bytes after the 255th are cut. Do
 * nothing while no timeline runs. Not collectives; any thread. */
HVD_API hvd_status hvd_timeline_begin(const char* name);
HVD_API hvd_status hvd_timeline_end(void);

#ifdef __cplusplus
}
#endif

#endif /* HVD_TIMELINE_H_ */
