/* libhvd: the timeline, what all ranks did and when, to look at in ui.perfetto.dev. The C ABI; see
 * hvd.h for statuses and errors, docs/timeline.md for how to read it.
 *
 * It shows every collective with its name, bytes and type, how long it waited and for which rank;
 * the steps of the training (hvd_set_step); and what the program itself tells of. Recording takes
 * well under a microsecond a collective, in memory of HVD_TIMELINE_MB (64) megabytes a rank; when
 * that is full the rest is dropped, which the file says. Nothing is sent until the end. Until then
 * each rank writes what it records into a file of its own, rank 0 under the file's name and the
 * others into FILE.rank<R>, from a thread of their own; a killed rank's stays.
 *
 * HVD_TIMELINE=FILE in the environment of all ranks (hvdrun --timeline-filename FILE) starts it in
 * hvd_init and ends it in hvd_shutdown, which then waits up to 30 seconds for the other ranks.
 *
 * When a rank has died, or the program exits without hvd_shutdown, each rank completes that file
 * of its own, and says so on stderr.
 */
#ifndef HVD_TIMELINE_H_
#define HVD_TIMELINE_H_

#include "hvd/hvd.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Begins to record, on all ranks. `path` is looked at on rank 0 only, which will write the file; a
 * plain file that is there is replaced. HVD_ERROR_INVALID_ARGUMENT on all ranks: a
 * timeline runs already, the path is null or no plain file; HVD_ERROR_SYSTEM: rank 0 cannot write
 * there. A collective. */
HVD_API hvd_status hvd_start_timeline(const char* path);

/* Ends it: rank 0 has written the file when this returns. HVD_ERROR_INVALID_ARGUMENT: none runs;
 * HVD_ERROR_SYSTEM on all ranks: rank 0 could not write it. A collective. */
HVD_API hvd_status hvd_stop_timeline(void);

/* A span of the program's own, from begin to end on one thread, such as "load data". Spans may
 * enclose others, and end in the reverse order. `name`: UTF-8, of which 255 bytes are kept. Does
 * nothing while no timeline runs. Any thread; not a collective. */
HVD_API hvd_status hvd_timeline_begin(const char* name);
HVD_API hvd_status hvd_timeline_end(void);

#ifdef __cplusplus
}
#endif

#endif /* HVD_TIMELINE_H_ */
