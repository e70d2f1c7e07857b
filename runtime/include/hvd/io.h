/* libhvd: what only one rank does, and files. The C ABI; see hvd.h for statuses and errors.
 *
 * In a training job one rank writes the logs and the results, and all ranks must hear when that has
 * failed: a rank that goes on alone waits for ever in the next collective. What is written here is
 * therefore either shared (its outcome is the same on all ranks) or the rank's own.
 */
#ifndef HVD_IO_H_
#define HVD_IO_H_

#include "hvd/hvd.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- What one rank does for all ---------------------------------------------------------------
 */

/* What `root` runs. Returns HVD_OK or a status; with one, *error may be set to a text (UTF-8, 64 KB
 * are kept) that stays valid until hvd_on_root returns. Must not throw. */
typedef hvd_status (*hvd_body)(void* argument, const char** error);

/* A collective: runs body(argument) on `root`, while the others wait, and returns its status on all
 * ranks; elsewhere hvd_last_error() has "rank R: " before the text. When the root dies meanwhile,
 * the others get HVD_ERROR_PEER. A collective inside the body would wait for ranks that wait for
 * it: it is HVD_ERROR_INVALID_ARGUMENT there. */
HVD_API hvd_status hvd_on_root(hvd_body body, void* argument, int root, const hvd_options* options);

/* ---- The log ----------------------------------------------------------------------------------
 */

typedef struct hvd_log hvd_log;

/* A collective: opens (appends to, creates) a log file that rank 0 writes, all ranks with the same
 * path. When rank 0 cannot, it is an error on all ranks. Close it with hvd_log_close. */
HVD_API hvd_status hvd_log_open(const char* path, hvd_log** log, const hvd_options* options);

/* On rank 0: lines of text, each put into the file with the local time before it (ISO 8601). What
 * follows the last newline is kept until more comes. On other ranks: nothing. Not a collective;
 * from any thread. A full disk is an error here, on rank 0; the log can be used further. */
HVD_API hvd_status hvd_log_write(hvd_log* log, const char* text, size_t bytes);

/* Writes what is left and closes. A null log is fine. Not a collective; also after hvd_shutdown. */
HVD_API void hvd_log_close(hvd_log* log);

/* ---- Files ------------------------------------------------------------------------------------
 */

/* A path of this rank's own from a pattern: "out/{rank}.txt". Words: {rank}, {local_rank} and
 * {node_rank} (with leading zeros, so that they sort), {size}, {host}, {job} (HVD_JOB_ID, "alone"
 * without), {restart} (how many times the job was restarted). "{{" is a brace. A pattern in which
 * several ranks would have one path is an error. `path` gets at most `size` bytes with the NUL;
 * too small: HVD_ERROR_INVALID_ARGUMENT. Not a collective. */
HVD_API hvd_status hvd_rank_path(const char* pattern, char* path, size_t size);

/* A file that is there whole or not at all: written under another name in the same folder, brought
 * to the disk (fsync), renamed, and the folder brought to the disk. What was under the name before
 * stays until then, and is what a reader sees. No lock is needed; on NFS too. Any one rank, one
 * thread at a time; also without hvd_init. */
typedef struct hvd_file hvd_file;

HVD_API hvd_status hvd_file_create(const char* path, hvd_file** file);
HVD_API hvd_status hvd_file_write(hvd_file* file, const void* data, size_t bytes);

/* Makes it visible under its name, and ends the file also when that fails (then nothing has changed
 * under the name). */
HVD_API hvd_status hvd_file_commit(hvd_file* file);

/* Drops what was written. A null file is fine. */
HVD_API void hvd_file_discard(hvd_file* file);

#ifdef __cplusplus
}
#endif

#endif /* HVD_IO_H_ */
