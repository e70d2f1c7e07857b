/* libhvd: a job that continues when ranks are lost (hvdrun --min-np M). The C ABI; see hvd.h for
 * statuses and errors, docs/train/elastic.md for the guide.
 *
 * When a rank dies, the others keep their processes and form the next generation: the same job with
 * fewer ranks. Each pending and later collective returns HVD_ERROR_PEER, with the reason ("rank 3
 * was killed by SIGKILL"). Then each rank takes its state back to its last commit
 * (hvd_state_restore), comes to the next generation (hvd_reform), gets the newest state of all
 * ranks (hvd_state_sync), and trains on. hvd/elastic.hpp does these steps in C++.
 *
 * A member is a process of the job. Its number never changes. Its rank is its number in a
 * generation, and may be another one in the next.
 *
 * In any other job all of this works too, except for hvd_reform: there is one generation, and a
 * member's number is its rank.
 */
#ifndef HVD_ELASTIC_H_
#define HVD_ELASTIC_H_

#include "hvd/hvd.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Generations -------------------------------------------------------------------------- */

/* Returns 1 if the job continues when ranks are lost, otherwise 0. Works before hvd_init. */
HVD_API int hvd_elastic(void);

/* These return a number, or -HVD_ERROR_NOT_INITIALIZED before hvd_init and after hvd_shutdown. They
 * may change only in hvd_reform and in hvd_init.
 *
 * hvd_generation: the number of this generation. The first one of the job is 1. A number may be
 * left out: a generation whose members could not connect. In any other job this is the number of
 * the session in this process.
 * hvd_member: the number of this member, from 0 on. A number is never used again.
 * hvd_newest: the rank whose state has the most commits at the start of this generation; of several
 * the lowest. 0 in the first one. */
HVD_API int hvd_generation(void);
HVD_API int hvd_member(void);
HVD_API int hvd_newest(void);

/* ---- New ranks ----------------------------------------------------------------------------- */

/* hvdrun starts new processes in the place of lost ones (--replace auto, --spares). Such a newcomer
 * imports, reads data and calls hvd_init while the others train. hvd_init does not wait for them:
 * it opens a session of this process alone, in which a broadcast gives what it was given. hvd_rank
 * and its relatives return the numbers that the newcomer is likely to have, never rank 0, and
 * hvd_local_rank that of its GPU. hvd_generation is 0. hvd_reform then waits until the others take
 * it in: at once if one is lost, or when they call hvd_check_updates.
 *
 * hvd_newcomer: 1 in such a process before its first hvd_reform has returned, otherwise 0; or
 * -HVD_ERROR_NOT_INITIALIZED. */
HVD_API int hvd_newcomer(void);

#define HVD_UPDATE_ADDED 0x1u   /* newcomers are ready: hvd_reform takes them in */
#define HVD_UPDATE_REMOVED 0x2u /* ranks are to leave: hvd_reform lets them */

/* Puts into *bits what has changed, or 0: the same on all ranks, which then all call hvd_reform. A
 * collective of all ranks, also in a job where nothing can change (but not if hvd_elastic is 0:
 * then it returns 0 at once). Call it between two steps, for example after each commit: it costs as
 * much as a small allreduce.
 *   HVD_ERROR_PEER: a rank was lost. */
HVD_API hvd_status hvd_check_updates(uint32_t* bits);

/* Returns what this rank alone knows of such changes; the others may not know of it yet. Does not
 * wait for others. 0 before hvd_init. */
HVD_API uint32_t hvd_known_updates(void);

/* Leaves this generation, and comes to the next one, like hvd_shutdown and hvd_init. Call it after
 * HVD_ERROR_PEER. All ranks may also have agreed to call it, for example by an allreduce; then
 * nothing was lost.
 *   Every rank that lives must call it, each on one thread. It waits until all have, or have ended.
 * hvdrun ends a rank that does not come within --reset-timeout seconds. If another rank dies in the
 * meantime, it waits for the generation after that. Calls of other threads return errors meanwhile.
 *   Afterwards rank and size may be others; see hvd_rank, .... hvd_local_device stays. Shared
 * buffers, checkpoints, logs, watched signals and progress stay usable. Shards and readers
 * (hvd/data.h) that were made with size 0 use the new rank and size. Process sets are gone: make
 * them again. Handles of the old generation are errors that name it. The timeline continues in a
 * file of its own, "run.generation-2.json".
 *   HVD_ERROR_UNSUPPORTED: the job is another one (hvd_elastic). HVD_ERROR_NOT_INITIALIZED: this is
 * before hvd_init or after hvd_shutdown. HVD_ERROR_REMOVED: the job does not want this process any
 * more. HVD_ERROR_PEER: the agent of this host has ended. After the last two the process is in no
 * generation, as after hvd_shutdown. */
HVD_API hvd_status hvd_reform(void);

/* ---- State -------------------------------------------------------------------------------- */

/* What every rank has alike, and what the training needs to go on: weights, the optimizer's state,
 * the step. It consists of blocks of the program's memory, and has a copy of them: the last commit.
 * Different objects may be used at the same time; one object by one thread at a time. */
typedef struct hvd_state hvd_state;

/* Makes a state without blocks. Free it with hvd_state_free. */
HVD_API hvd_status hvd_state_create(hvd_state** state);

/* Adds a block: `bytes` bytes at `data`, which must stay there as long as the state lives. `memory`
 * is HVD_HOST. All ranks add the same names and sizes in the same order.
 *   HVD_ERROR_INVALID_ARGUMENT: the name is null, empty or there already; data is null and bytes is
 * not 0; the state was committed or synchronised before. HVD_ERROR_UNSUPPORTED: memory is HVD_CUDA.
 * Copy it to host memory before a commit. */
HVD_API hvd_status hvd_state_add(hvd_state* state, const char* name, void* data, size_t bytes,
                                 int32_t memory);

/* Copies the blocks, and adds one to the number of commits of this process. Not a collective, and
 * waits for no other rank. Ranks may differ by the commit that was in progress when a rank died.
 * The first one allocates the copy, later ones allocate nothing. HVD_ERROR_SYSTEM: there is no
 * memory. */
HVD_API hvd_status hvd_state_commit(hvd_state* state);

/* Copies the last commit, or the last hvd_state_sync, back into the blocks. Not a collective.
 *   HVD_ERROR_INVALID_ARGUMENT: there was none. */
HVD_API hvd_status hvd_state_restore(hvd_state* state);

/* Gives the blocks of rank hvd_newest() to all ranks, and makes them the last commit of each. The
 * number of commits becomes that of this rank, too. A collective.
 *   After an error the blocks are those of this rank's last commit; without one, those from before
 * the call. So if the newest rank dies in it, the others still have what they had committed.
 *   HVD_ERROR_MISMATCH on all ranks: the states have different blocks. HVD_ERROR_PEER. */
HVD_API hvd_status hvd_state_sync(hvd_state* state);

/* Frees a state, not its blocks. Does nothing with null. */
HVD_API void hvd_state_free(hvd_state* state);

/* Sets how many commits this process has made of a state that it keeps elsewhere. The launcher
 * chooses hvd_newest() by it. Not a collective; works at any time. */
HVD_API hvd_status hvd_set_commits(uint64_t commits);

#ifdef __cplusplus
}
#endif

#endif /* HVD_ELASTIC_H_ */
