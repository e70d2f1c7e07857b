/* libhvd: work that one rank does for all, and files. The C ABI; see hvd.h for statuses and errors.
 *
 * In a training job one rank writes the logs and the results. If that fails, all ranks must know,
 * because a rank that continues alone waits for ever in the next collective. So an operation here
 * is either a collective, with the same status on all ranks, or concerns only the rank itself. Only
 * if libhvd cannot continue on a rank (HVD_ERROR_SYSTEM), the others return HVD_ERROR_PEER.
 */
#ifndef HVD_IO_H_
#define HVD_IO_H_

#include "hvd/hvd.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- One rank for all -------------------------------------------------------------------------
 */

/* The function that `root` runs. Returns HVD_OK or another status. With another status it may set
 * *error to a text (UTF-8, of which 64 KB are used) that stays valid until hvd_on_root returns.
 * Must not throw. */
typedef hvd_status (*hvd_body)(void* argument, const char** error);

/* A collective: runs body(argument) on rank `root` while the others wait, and returns its status on
 * all ranks. On the other ranks hvd_last_error() has "rank R: " before the text. If the root dies
 * meanwhile, the others return HVD_ERROR_PEER. The body must not call a collective, which would
 * wait for ranks that wait for the body: it returns HVD_ERROR_INVALID_ARGUMENT there. */
HVD_API hvd_status hvd_on_root(hvd_body body, void* argument, int root, const hvd_options* options);

/* ---- The log ----------------------------------------------------------------------------------
 */

typedef struct hvd_log hvd_log;

/* A collective: opens a log file that rank 0 writes, and creates it if missing. Lines are appended.
 * All ranks pass the same path. If rank 0 cannot open it, all ranks return the error. Close it with
 * hvd_log_close.
 *   The log can be used after hvd_reform, or hvd_shutdown and hvd_init: then the new rank 0 writes.
 * If that cannot open the file, its hvd_log_write returns the error. */
HVD_API hvd_status hvd_log_open(const char* path, hvd_log** log, const hvd_options* options);

/* Writes `bytes` bytes of text on rank 0: each line goes into the file with the local time before
 * it (ISO 8601). Text after the last newline is kept until the rest of its line is written. Does
 * nothing on other ranks. Not a collective; any thread. Error, on rank 0 only: the file cannot be
 * written (a full disk); the log can still be used after that. */
HVD_API hvd_status hvd_log_write(hvd_log* log, const char* text, size_t bytes);

/* Writes the text that is left and closes the log. Does nothing with null. Not a collective; works
 * also after hvd_shutdown. */
HVD_API void hvd_log_close(hvd_log* log);

/* ---- Files ------------------------------------------------------------------------------------
 */

/* Makes a path of this rank's own from a pattern such as "out/{rank}.txt". The pattern may contain
 * {rank}, {local_rank} and {node_rank} (with leading zeros, so that they sort), {size}, {host},
 * {job} (HVD_JOB_ID; "alone" if unset) and {restart} (how often the job was restarted). "{{" is a
 * brace. `path` gets at most `size` bytes including the NUL. Not a collective.
 *   HVD_ERROR_INVALID_ARGUMENT: several ranks would get the same path; `size` is too small. */
HVD_API hvd_status hvd_rank_path(const char* pattern, char* path, size_t size);

/* A file that appears whole or not at all. It is written under another name in the same folder,
 * synced to the disk (fsync(2)) and renamed; then the folder is synced. Until then a reader sees
 * the file that had the name before. Needs no lock, and works on NFS. For one rank, and one thread
 * at a time; works also without hvd_init. */
typedef struct hvd_file hvd_file;

/* Begins a file. Error: it cannot be created. */
HVD_API hvd_status hvd_file_create(const char* path, hvd_file** file);

/* Appends `bytes` bytes. Error: the file cannot be written. */
HVD_API hvd_status hvd_file_write(hvd_file* file, const void* data, size_t bytes);

/* Makes the file visible under its name, and frees `file` even if that fails. After an error the
 * name is unchanged. */
HVD_API hvd_status hvd_file_commit(hvd_file* file);

/* Removes what was written and frees `file`. Does nothing with null. */
HVD_API void hvd_file_discard(hvd_file* file);

#ifdef __cplusplus
}
#endif

#endif /* HVD_IO_H_ */
