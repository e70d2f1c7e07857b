/* libhvd: collectives between the ranks of a training job. The C ABI; C11 and C++.
 *
 * A program calls hvd_init() once on every rank, then the collectives, then hvd_shutdown(). It may
 * do so again. It runs unchanged under hvdrun, `mpirun` (Open MPI), `srun --mpi=pmix`, torchrun,
 * and alone (then it is rank 0 of 1).
 *
 * Errors. Every function returns a status, HVD_OK (0) or one of HVD_ERROR_*; those that answer
 * with a number return it, or the negative of the status. hvd_last_error() gives the text of the
 * last failure on the calling thread. Nothing is thrown.
 *   A mistake that one rank makes in a collective (another count, type, op, root or name; a null
 * buffer) is HVD_ERROR_MISMATCH or HVD_ERROR_INVALID_ARGUMENT on all ranks, with a message that
 * names the tensor and the ranks. Nothing was written then, and the next collective works.
 *   When a rank dies or leaves, HVD_ERROR_PEER comes to all others that wait for it, and at once
 * from every later collective; only hvd_shutdown() and a new hvd_init() help.
 *
 * Order. All ranks make the same blocking calls in the same order. Calls may come from any thread;
 * they are carried out one after another (a mutex), so when several threads call, the program must
 * see to it that the order is the same everywhere. Those in the background (hvd_allreduce_async, …)
 * may come in any order.
 *
 * Fork. In a child that was forked after hvd_init, only the queries work (hvd_rank…). A collective
 * there is HVD_ERROR_FORKED, and HVD_ERROR_PEER on all ranks. exec is fine.
 *
 * Exit. A program that exits (exit(3), return from main) without hvd_shutdown is shut down by an
 * exit handler. _exit, a signal or exec without it count as the rank's death.
 *
 * Results. The same bits on all ranks and from run to run with the same size: every element is
 * reduced in ascending order of ranks.
 */
#ifndef HVD_HVD_H_
#define HVD_HVD_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HVD_API __attribute__((visibility("default")))

/* ---- Status ------------------------------------------------------------------------------- */

/* One of the values below. New values may come; treat an unknown one as a failure. */
typedef int32_t hvd_status;

enum {
  HVD_OK = 0,
  HVD_ERROR_INVALID_ARGUMENT = 1, /* an argument that cannot work, here or on another rank */
  HVD_ERROR_NOT_INITIALIZED = 2,  /* before hvd_init or after hvd_shutdown */
  HVD_ERROR_MISMATCH = 3,         /* the ranks called different things */
  HVD_ERROR_PEER = 4,             /* a rank died or left; this communicator is over */
  HVD_ERROR_UNSUPPORTED = 5,      /* this version or build cannot do it */
  HVD_ERROR_ENVIRONMENT = 6,      /* an environment variable makes no sense */
  HVD_ERROR_TIMEOUT = 7,          /* the ranks did not come together within HVD_START_TIMEOUT */
  HVD_ERROR_SYSTEM = 8,           /* a system call or a library failed */
  HVD_ERROR_FORKED = 9,           /* called in a child forked after hvd_init */
  HVD_ERROR_ROOT = 10             /* what one rank did for all has failed there */
};

/* Text of the last failure on this thread, UTF-8; "" when nothing has failed. Valid until the next
 * failure on this thread. */
HVD_API const char* hvd_last_error(void);

/* The library's version, "0.1.0". */
HVD_API const char* hvd_version(void);

/* ---- The job ------------------------------------------------------------------------------ */

/* Joins the job: finds the other ranks (through PMIx, or HVD_RANK/HVD_SIZE or torch's
 * RANK/WORLD_SIZE with MASTER_ADDR and MASTER_PORT, or alone) and maps the segment through which
 * they talk. Returns when all have; waits for them at most HVD_START_TIMEOUT seconds (120).
 * Already initialised: HVD_ERROR_INVALID_ARGUMENT. */
HVD_API hvd_status hvd_init(void);

/* Leaves the job. Does not wait for the others: a rank that still calls a collective is told that
 * this one has left. Not initialised: HVD_ERROR_NOT_INITIALIZED. */
HVD_API hvd_status hvd_shutdown(void);

/* 1 between hvd_init and hvd_shutdown, else 0. */
HVD_API int hvd_initialized(void);

/* These return the number, or -HVD_ERROR_NOT_INITIALIZED. */
HVD_API int hvd_rank(void);           /* 0 ... size-1 */
HVD_API int hvd_size(void);           /* ranks in the job */
HVD_API int hvd_local_rank(void);     /* rank among those on this host */
HVD_API int hvd_local_size(void);     /* ranks on this host */
HVD_API int hvd_cross_rank(void);     /* rank among those with this local rank, one a host */
HVD_API int hvd_cross_size(void);     /* how many these are */
HVD_API int hvd_node_rank(void);      /* index of this host */
HVD_API int hvd_node_count(void);     /* hosts in the job */
HVD_API int hvd_restart_count(void);  /* how often the job was started before: by hvdrun, torchrun,
                                         and SLURM's requeue together; 0: this is the first time */
HVD_API int hvd_is_homogeneous(void); /* 1 when every host has the same number of ranks, else 0 */

/* ---- Collectives -------------------------------------------------------------------------- */

/* Types of elements. The numbers are Horovod's where it has the type. */
typedef int32_t hvd_type;
enum {
  HVD_UINT8 = 0,
  HVD_INT8 = 1,
  HVD_UINT16 = 2,
  HVD_INT16 = 3,
  HVD_INT32 = 4,
  HVD_INT64 = 5,
  HVD_FLOAT16 = 6, /* IEEE 754 binary16; reduced in float32, rounded once, to nearest even */
  HVD_FLOAT32 = 7,
  HVD_FLOAT64 = 8,
  HVD_BOOL = 9,     /* one byte, 0 is false; results are 0 or 1 */
  HVD_BFLOAT16 = 10 /* upper half of a float32; reduced like float16 */
};

/* Reductions. The numbers are Horovod's.
 *   Integers: sum and product wrap modulo 2^bits. Average is the exact sum, divided by the size,
 * truncated towards zero; it cannot overflow.
 *   Floating point: average is the sum divided by the size. Min and max of anything with a NaN is
 * a NaN.
 *   Bool: sum and max are "or", product and min are "and"; there is no average. */
typedef int32_t hvd_op;
enum { HVD_AVERAGE = 0, HVD_SUM = 1, HVD_MIN = 3, HVD_MAX = 4, HVD_PRODUCT = 5 };

/* What else a call may say. Set struct_size to sizeof(hvd_options) and everything unused to zero.
 * A null pointer to options stands for all defaults. Later versions add fields at the end: a
 * library that does not know a field refuses it (HVD_ERROR_INVALID_ARGUMENT) unless it is zero. */
typedef struct hvd_options {
  size_t struct_size;
  const char* name; /* the tensor's name, for messages and hvdrun; must agree; null: no name.
                       The first 127 bytes are shown. */
  /* Of allreduce and reducescatter, for floating point types: each input is multiplied by prescale
   * before it is reduced, the result by postscale. Must agree; 0 stands for 1. Rounded to float32
   * for types of up to 32 bits. */
  double prescale;
  double postscale;
} hvd_options;

/* Memory, zero at first and aligned to a page, that the other ranks of the host can reach. When all
 * ranks' buffers of a call lie in such memory it does not copy them, which makes large ones two to
 * three times as fast; else it is memory like any other. It stays valid until hvd_free, also after
 * hvd_shutdown. After HVD_ERROR_PEER other ranks may still write into it until they know of the
 * failure. A forked child shares it, where it has a copy of other memory.
 *   It counts as shared memory (/dev/shm, or HVD_SHM_DIR). Where that has no room the memory is
 * ordinary, and one line on stderr says how much would be needed. Errors: 0 bytes, or more than
 * there are. Any thread. */
HVD_API hvd_status hvd_alloc(size_t bytes, void** memory);

/* Gives it back; no call that uses it may be in progress. Null is fine. */
HVD_API hvd_status hvd_free(void* memory);

/* Buffers are the caller's, in host memory. A buffer may be null when its count is 0. `output` may
 * be `input` (in place) or lie apart from it; where they overlap otherwise, the call fails. */

/* output[i] = op over all ranks of input[i], for `count` elements, the same on all ranks. */
HVD_API hvd_status hvd_allreduce(const void* input, void* output, size_t count, hvd_type type,
                                 hvd_op op, const hvd_options* options);

/* buffer of `root` -> buffer of all ranks, `count` elements, the same on all ranks. */
HVD_API hvd_status hvd_broadcast(void* buffer, size_t count, hvd_type type, int root,
                                 const hvd_options* options);

/* Rows of all ranks, one rank's after the other's, into output on all ranks. A row is `row_size`
 * elements (the product of all dimensions but the first), the same on all ranks; `rows` may differ.
 * `output_rows` says how many rows fit into output. rows_by_rank (`size` numbers, may be null) gets
 * every rank's rows. When output is too small on any rank, all ranks get
 * HVD_ERROR_INVALID_ARGUMENT; rows_by_rank is filled in also then. */
HVD_API hvd_status hvd_allgather(const void* input, size_t rows, size_t row_size, hvd_type type,
                                 void* output, size_t output_rows, size_t* rows_by_rank,
                                 const hvd_options* options);

/* Reduces `rows` rows, as many on all ranks, and gives each rank its share of the result, in the
 * order of ranks: rows / size rows, and one more for the first rows % size ranks. `output` has room
 * for this rank's share, and lies apart from `input`. */
HVD_API hvd_status hvd_reducescatter(const void* input, size_t rows, size_t row_size, hvd_type type,
                                     hvd_op op, void* output, const hvd_options* options);

/* Gives rows to all ranks and gets rows from all. The input's `rows` rows are those for rank 0,
 * then those for rank 1, …: splits[r] rows for rank r (`size` numbers that add up to `rows`; null:
 * as many for each). The output gets rank 0's rows for us, then rank 1's, …; received (`size`
 * numbers, may be null) how many from each. `row_size` as for hvd_allgather. When an output is too
 * small on any rank, all ranks get HVD_ERROR_INVALID_ARGUMENT; received is filled in also then. */
HVD_API hvd_status hvd_alltoall(const void* input, const size_t* splits, size_t rows,
                                size_t row_size, hvd_type type, void* output, size_t output_rows,
                                size_t* received, const hvd_options* options);

/* Returns when all ranks have called it. */
HVD_API hvd_status hvd_barrier(const hvd_options* options);

/* ---- Collectives in the background --------------------------------------------------------
 * Each of these submits a collective and returns at once. Ranks may submit them in any order and
 * from any thread: they meet by name, not by order (those without a name by kind and order), and
 * apart from the calls above. The same name may be submitted again when it is done. Buffers, splits
 * and what is filled in must stay until it is done; names and options need not. hvd_wait() tells
 * how it ended, as the call above would, and takes the handle back. A handle that is never waited
 * for is kept until hvd_shutdown, which fails what is not done with HVD_ERROR_NOT_INITIALIZED.
 * Small allreduces that are ready at the same time are carried out together. */
typedef int64_t hvd_handle; /* 0 is none */

HVD_API hvd_status hvd_allreduce_async(const void* input, void* output, size_t count, hvd_type type,
                                       hvd_op op, const hvd_options* options, hvd_handle* handle);
HVD_API hvd_status hvd_broadcast_async(void* buffer, size_t count, hvd_type type, int root,
                                       const hvd_options* options, hvd_handle* handle);
HVD_API hvd_status hvd_allgather_async(const void* input, size_t rows, size_t row_size,
                                       hvd_type type, void* output, size_t output_rows,
                                       size_t* rows_by_rank, const hvd_options* options,
                                       hvd_handle* handle);
HVD_API hvd_status hvd_reducescatter_async(const void* input, size_t rows, size_t row_size,
                                           hvd_type type, hvd_op op, void* output,
                                           const hvd_options* options, hvd_handle* handle);
HVD_API hvd_status hvd_alltoall_async(const void* input, const size_t* splits, size_t rows,
                                      size_t row_size, hvd_type type, void* output,
                                      size_t output_rows, size_t* received,
                                      const hvd_options* options, hvd_handle* handle);
HVD_API hvd_status hvd_barrier_async(const hvd_options* options, hvd_handle* handle);

/* Whether it is done (1) or not (0). */
HVD_API hvd_status hvd_poll(hvd_handle handle, int* done);

/* Waits until it is done. */
HVD_API hvd_status hvd_wait(hvd_handle handle);

/* ---- Metrics ------------------------------------------------------------------------------ */

/* Which of several values of a metric is the best: the smallest of a loss, the largest of an
 * accuracy. For checkpoints (checkpoint.h) and early stopping (agree.h). */
typedef int32_t hvd_best;
enum { HVD_BEST_NONE = 0, HVD_BEST_MIN = 1, HVD_BEST_MAX = 2 };

/* ---- What the launcher shows and says --------------------------------------------------------
 * Under hvdrun these reach its status lines and its report; elsewhere they do nothing. */

HVD_API hvd_status hvd_set_step(uint64_t step);       /* training steps done */
HVD_API hvd_status hvd_set_epoch(uint64_t epoch);     /* the current epoch, counted from 0 */
HVD_API hvd_status hvd_add_samples(uint64_t samples); /* this many more were trained on here */

/* Bits of hvd_notice. */
#define HVD_NOTICE_STOP 0x1u      /* please stop at a step boundary, see stop_at_step */
#define HVD_NOTICE_TIME_LEFT 0x2u /* the end of the job is known, see hvd_time_left */

/* What the launcher has asked of this rank so far: bits, and with HVD_NOTICE_STOP the step to stop
 * at (0: the next). Either pointer may be null. Ranks may see a notice at different moments: agree
 * on it with an allreduce before acting. */
HVD_API hvd_status hvd_notice(uint32_t* bits, uint64_t* stop_at_step);

/* Seconds until the job must be over, negative when that has passed; infinity when not known. The
 * launcher says it, or SLURM (SLURM_JOB_END_TIME); the sooner of both. */
HVD_API hvd_status hvd_time_left(double* seconds);

#ifdef __cplusplus
}
#endif

#endif /* HVD_HVD_H_ */
