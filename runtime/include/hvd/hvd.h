/* libhvd: collectives between the ranks of a training job. The C ABI; C11 and C++.
 *
 * A program calls hvd_init() once on every rank, then the collectives, then hvd_shutdown(). It may
 * do so again. It runs unchanged under hvdrun, `mpirun` (Open MPI), `srun --mpi=pmix`, torchrun,
 * and alone (then it is rank 0 of 1).
 *
 * Errors. Every function returns a status, HVD_OK (0) or one of HVD_ERROR_*; those that answer
 * with a number return it, or the negative of the status. hvd_last_error() gives the text of the
 * last failure on the calling thread. Nothing is thrown.
 *   A mistake that one rank makes in a collective (another count, type, op or root; a null
 * buffer) is HVD_ERROR_MISMATCH or HVD_ERROR_INVALID_ARGUMENT on all ranks, with a message that
 * names the tensor and the ranks. Nothing was written then, and the next collective works.
 *   When a rank dies or leaves, HVD_ERROR_PEER comes to all others that wait for it, and at once
 * from every later collective; only hvd_shutdown() and a new hvd_init() help.
 *
 * Order. Calls with a name (hvd_options), on a process set, or in the background
 * (hvd_allreduce_async, …) may come in any order, and from any thread: the ranks find each other's
 * by name. (A blocking call waits for its name: what one thread calls must still be able to meet.
 * A name that another rank never calls is found by the stall check, docs/runtime.md.) The others
 * are the fastest; all ranks make them in the same order. They are carried out one after another (a
 * mutex), so when several threads make such calls, the program must see to it that the order is the
 * same everywhere.
 *
 * Fork. In a child that was forked after hvd_init, only the queries work (hvd_rank…). A collective
 * there is HVD_ERROR_FORKED, and HVD_ERROR_PEER on all ranks. exec is fine.
 *
 * Exit. A program that exits (exit(3), return from main) without hvd_shutdown is shut down by an
 * exit handler. _exit, a signal or exec without it count as the rank's death.
 *
 * Results. The same bits on all ranks and from run to run with the same placement of ranks on
 * hosts, whatever else is in the call: every element is reduced over the ranks of each host in
 * ascending order, and then over the hosts, in the order of their first ranks. On one host, or with
 * one rank on each, that is the order of ranks.
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

/* Ranks, `count` of them. */
typedef struct hvd_rank_list {
  const int* ranks;
  size_t count;
} hvd_rank_list;

/* What else a start may be told. Set struct_size to sizeof(hvd_init_options) and everything unused
 * to zero. Later versions add fields at the end, as with hvd_options. */
typedef struct hvd_init_options {
  size_t struct_size;
  /* The ranks of the job that start together; null: all. Each of them gives the same list. From
   * then on "all ranks" are these, and they are counted by their places in the list: ranks[0] is
   * rank 0 for hvd_rank(), roots and process sets. Only messages, and hvdrun, go on calling a rank
   * by its rank in the job. The others start without them, with a list of their own, or not at
   * all; after hvd_shutdown() a rank may start with others. */
  const int* ranks;
  size_t rank_count;
  /* Process sets (see below) that exist when hvd_init_with() returns: numbers 1, 2, … in this
   * order. Their ranks are counted like hvd_rank(). The same on all ranks that start. */
  const hvd_rank_list* process_sets;
  size_t process_set_count;
} hvd_init_options;

/* hvd_init() for some of the ranks, and with process sets. Null stands for all defaults.
 *   A list of ranks that is empty, names a rank that there is not, one twice, or not this one, is
 * HVD_ERROR_INVALID_ARGUMENT; ranks whose lists differ never meet, and get HVD_ERROR_TIMEOUT after
 * HVD_START_TIMEOUT seconds. Process sets that make no sense, or differ, are
 * HVD_ERROR_INVALID_ARGUMENT or HVD_ERROR_MISMATCH on all.
 *   Without PMIx ranks[0] takes the place of rank 0: it must be on the host that MASTER_ADDR names,
 * and listens on a port as rank 0 does (HVD_PORT in docs/environment.md). */
HVD_API hvd_status hvd_init_with(const hvd_init_options* options);

/* Leaves the job. Does not wait for the others: a rank that still calls a collective is told that
 * this one has left. Not initialised: HVD_ERROR_NOT_INITIALIZED. */
HVD_API hvd_status hvd_shutdown(void);

/* 1 between hvd_init and hvd_shutdown, else 0. */
HVD_API int hvd_initialized(void);

/* These return the number, or -HVD_ERROR_NOT_INITIALIZED. */
HVD_API int hvd_rank(void);           /* 0 ... size-1 */
HVD_API int hvd_size(void);           /* ranks that started together: the job's, or those chosen */
HVD_API int hvd_local_rank(void);     /* rank among those on this host */
HVD_API int hvd_local_size(void);     /* ranks on this host */
HVD_API int hvd_cross_rank(void);     /* rank among those with this local rank, one a host */
HVD_API int hvd_cross_size(void);     /* how many these are */
HVD_API int hvd_node_rank(void);      /* index of this host */
HVD_API int hvd_node_count(void);     /* hosts of these ranks */
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
 *   Bool: sum and max are "or", product and min are "and"; there is no average.
 *   Adasum (S. Maleki et al., "Scaling Distributed Training with Adaptive Summation",
 * arXiv:2006.02924), of floating point types and for allreduces: the ranks' tensors are added in
 * pairs, 0 and 1, 2 and 3, …, then the results in pairs, and so on. Of a and b that is
 * (1 - a.b / (2 |a|^2)) a + (1 - a.b / (2 |b|^2)) b, in which the factor of a tensor of zeros is 1:
 * the sum where they are orthogonal, the average where they are equal. Each tensor of a group
 * counts for itself. Computed in double and rounded once. The number of ranks is a power of two;
 * any other is HVD_ERROR_INVALID_ARGUMENT on all ranks. */
typedef int32_t hvd_op;
enum { HVD_AVERAGE = 0, HVD_SUM = 1, HVD_ADASUM = 2, HVD_MIN = 3, HVD_MAX = 4, HVD_PRODUCT = 5 };

/* Kinds of memory.
 *   HVD_CUDA: all buffers of the call are in the memory of one GPU (cudaMalloc, managed memory),
 * the same one in all calls of this rank; splits and what is filled in stay in host memory. The
 * call comes behind what the stream has so far, and what the stream gets later comes behind the
 * call. The ranks wait for each other, but not for their GPUs. A call in the background is ordered
 * likewise: behind what the stream had when it was submitted, and before what the stream gets after
 * hvd_wait(). It is done, for hvd_poll() and hvd_wait(), when it is on its way to the GPU.
 *   When a rank dies, what is on the streams ends and its results are lost; the next call of the
 * library tells. NCCL does the arithmetic: sums of 16-bit floats may be rounded more than once, min
 * and max drop NaNs, the order of summation is its own. What it cannot do goes through host memory,
 * for which the CPU waits: 16-bit integers, bool, averages of integers, Adasum, factors that do
 * not go with it, and several ranks on one GPU. */
enum { HVD_HOST = 0, HVD_CUDA = 1 };

/* What else a call may say. Set struct_size to sizeof(hvd_options) and everything unused to zero.
 * A null pointer to options stands for all defaults. Later versions add fields at the end: a
 * library that does not know a field refuses it (HVD_ERROR_INVALID_ARGUMENT) unless it is zero. */
typedef struct hvd_options {
  size_t struct_size;
  const char* name; /* the tensor's name, for messages and hvdrun; must agree; null: no name.
                       The first 127 bytes are shown. */
  /* Of allreduce and reducescatter, not for bool: each input is multiplied by prescale before it is
   * reduced, the result by postscale. Must agree; 0 stands for 1. Rounded to float32 for floating
   * point types of up to 32 bits; products of integers are computed in double and truncated. */
  double prescale;
  double postscale;
  int32_t process_set; /* the ranks that take part, see hvd_add_process_set; 0: all */
  int32_t priority;    /* of what waits to be carried out in the background, the largest first; of
                          equal ones, in the order of submission. Where ranks differ, the one that
                          submits first decides. */
  int32_t memory;      /* HVD_HOST or HVD_CUDA: where the buffers lie; must agree */
  int32_t reserved;    /* zero */
  void* stream;        /* with HVD_CUDA: a cudaStream_t; null: the default stream */
  /* Of allgather and alltoall: makes the output when it is known how many rows come, for a caller
   * that does not know. The call's `output` is null then, and output_rows 0; ranks may differ in
   * this. Called at most once, with the rows of this rank's result (0, too), from whichever thread
   * carries the call out; rows_by_rank and received are filled in by then. It must not call this
   * library, nor throw.
   *   The memory is the caller's, also when the call fails later, and lies apart from the input.
   * With HVD_CUDA it is on the GPU of the call, which is current then; what still uses it on the
   * stream was there before the call, or its submission.
   *   Null: there is no memory (or no need, when the result has no bytes). Then this rank gets
   * HVD_ERROR_SYSTEM, as for memory that cannot be used, and the others their results. */
  void* (*allocate)(void* context, size_t rows);
  void* allocate_context; /* stays valid until the call is done */
  /* What the tensor looks like, "[64, 3, 7, 7]" (of allgather and alltoall: without the first
   * dimension, which may differ): must agree, and stands in messages; null: not told. Tensors of as
   * many elements can have other shapes. The first 63 bytes count. */
  const char* shape;
} hvd_options;

/* Memory, zero at first and aligned to a page, that the other ranks of the host can reach. When all
 * ranks' buffers of a call lie in such memory it does not copy them, which makes large ones two to
 * three times as fast; else it is memory like any other. It stays valid until hvd_free, also after
 * hvd_shutdown. After HVD_ERROR_PEER other ranks may still write into it until they know of the
 * failure. A forked child shares it, where it has a copy of other memory.
 *   It counts as shared memory (/dev/shm, or HVD_SHM_DIR); what that has no room for lies in a file
 * without a name (memfd_create(2)). Where the ranks cannot share one the memory is ordinary, and
 * one line on stderr says how much would be needed. Errors: 0 bytes, or more than
 * there are. Any thread. */
HVD_API hvd_status hvd_alloc(size_t bytes, void** memory);

/* Gives it back; no call that uses it may be in progress. Null is fine. */
HVD_API hvd_status hvd_free(void* memory);

/* Makes memory that the program has such memory, where it is and with what it holds: whole pages
 * that are its own (posix_memalign(3), or mmap(2) with MAP_PRIVATE | MAP_ANONYMOUS), `bytes` of
 * them. What the program has asked of these pages by madvise, mlock or mbind is lost. Where it
 * cannot be shared it stays what it is, as with hvd_alloc. No thread may use it during the call.
 * Errors: address or size are not multiples of a page, there is no such memory, or a part of it is
 * shared already. Any thread. */
HVD_API hvd_status hvd_register(void* memory, size_t bytes);

/* Makes it ordinary again, with what it holds; before it is freed or unmapped. No call that uses it
 * may be in progress, no thread may use it meanwhile. Null is fine. Errors: it was not registered;
 * there is no memory for the copy, and it stays shared. */
HVD_API hvd_status hvd_unregister(void* memory);

/* Buffers are the caller's, in host memory unless the options say HVD_CUDA. A buffer may be null
 * when its count is 0. `output` may be `input` (in place) or lie apart from it; where they overlap
 * otherwise, the call fails. */

/* output[i] = op over all ranks of input[i], for `count` elements, the same on all ranks. */
HVD_API hvd_status hvd_allreduce(const void* input, void* output, size_t count, hvd_type type,
                                 hvd_op op, const hvd_options* options);

/* buffer of `root` -> buffer of all ranks, `count` elements, the same on all ranks. */
HVD_API hvd_status hvd_broadcast(void* buffer, size_t count, hvd_type type, int root,
                                 const hvd_options* options);

/* Rows of all ranks, one rank's after the other's, into output on all ranks. A row is `row_size`
 * elements (the product of all dimensions but the first), the same on all ranks; `rows` may differ.
 * `output_rows` says how many rows fit into output; hvd_options.allocate makes one that fits.
 * rows_by_rank (`size` numbers, may be null) gets every rank's rows. When output is too small on
 * any rank, all ranks get HVD_ERROR_INVALID_ARGUMENT; rows_by_rank is filled in also then. */
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
 * numbers, may be null) how many from each. `row_size` and hvd_options.allocate as for
 * hvd_allgather. When an output is too small on any rank, all ranks get HVD_ERROR_INVALID_ARGUMENT;
 * received is filled in also then. */
HVD_API hvd_status hvd_alltoall(const void* input, const size_t* splits, size_t rows,
                                size_t row_size, hvd_type type, void* output, size_t output_rows,
                                size_t* received, const hvd_options* options);

/* Returns when all ranks have called it. */
HVD_API hvd_status hvd_barrier(const hvd_options* options);

/* An allreduce of several tensors of one type, which the ranks carry out as one: when they do not
 * agree on all of them, none is written. Lists of `tensors` buffers and counts; small ones share
 * messages. The lists need not stay, the buffers must, for the second one until it is done. */
HVD_API hvd_status hvd_grouped_allreduce(size_t tensors, const void* const* inputs,
                                         void* const* outputs, const size_t* counts, hvd_type type,
                                         hvd_op op, const hvd_options* options);

/* For a rank that has no more data while others still have: it takes part in their calls, until all
 * ranks have called this. To a sum or an average (hvd_allreduce, hvd_grouped_allreduce; an average
 * is still divided by the number of all ranks) it gives zeros. Any other collective is
 * HVD_ERROR_INVALID_ARGUMENT on the ranks that call it, and names those that have joined.
 *   *last_rank (may be null) gets the rank that joined last in time, the same on all ranks. Between
 * hosts whose ranks join within microseconds of each other it is one of those.
 * On other process sets that this rank is in, the same holds. While it waits, other threads of this
 * rank cannot submit anything. */
HVD_API hvd_status hvd_join(int* last_rank);

/* ---- Process sets -------------------------------------------------------------------------
 * Some of the ranks, with collectives of their own: hvd_options.process_set. Set 0 is all ranks.
 * Inside a set the order of ranks is that of hvd_rank(); roots are ranks of all. hvd_init_with
 * makes sets at the start. A call on a set by a rank that is not in it is
 * HVD_ERROR_INVALID_ARGUMENT. */

/* Makes a set of `count` ranks of the job, in any order. All ranks of the job call this, with the
 * same ranks, also those that are not in it; what one got wrong is an error on all. *process_set
 * gets its number, the same on all ranks. */
HVD_API hvd_status hvd_add_process_set(const int* ranks, size_t count, int32_t* process_set);

/* All ranks of the job call this. What is pending on the set fails with
 * HVD_ERROR_NOT_INITIALIZED. hvd_shutdown removes all. */
HVD_API hvd_status hvd_remove_process_set(int32_t process_set);

/* These return the number, or the negative of a status. */
HVD_API int hvd_process_set_size(int32_t process_set);
HVD_API int hvd_process_set_rank(int32_t process_set);     /* our place in it, 0 ... size-1 */
HVD_API int hvd_process_set_included(int32_t process_set); /* 1: we are in it, else 0 */
/* How many ranks it has; the first `room` of them go to `ranks` (may be null). */
HVD_API int hvd_process_set_ranks(int32_t process_set, int* ranks, size_t room);
/* How many sets there are, with set 0; the first `room` numbers go to `process_sets`. */
HVD_API int hvd_process_sets(int32_t* process_sets, size_t room);

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
HVD_API hvd_status hvd_grouped_allreduce_async(size_t tensors, const void* const* inputs,
                                               void* const* outputs, const size_t* counts,
                                               hvd_type type, hvd_op op, const hvd_options* options,
                                               hvd_handle* handle);
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
HVD_API hvd_status hvd_add_samples(uint64_t samples); /* this many more were trained on here */

/* The current epoch, counted from 0. The one before is over then: hvdrun's report has how long each
 * of the last ten took, and how many samples (hvd_add_samples) it had; `hvdrun scale` compares
 * them. After the last epoch call it once more, with the number of epochs: else that one lasts
 * until hvd_shutdown(), with all that is done in between. The same number again changes nothing. */
HVD_API hvd_status hvd_set_epoch(uint64_t epoch);

/* What the training has come to: "loss", "accuracy" (0 to 1) and others, at most 6 names of up to
 * 23 bytes each; the last value of each stands in hvdrun's report. `hvdrun scale` compares those of
 * the lowest rank that has set them, over numbers of ranks. NaN and infinities are values. Errors:
 * a name that is null, empty or too long; more names. */
HVD_API hvd_status hvd_set_metric(const char* name, double value);

/* Why this rank is about to end: `text` (UTF-8, several lines, such as a traceback) stands in
 * hvdrun's report, once for all ranks that say the same, so that the caller need not print it.
 * Works before hvd_init and after hvd_shutdown too, on any thread; the last call counts. Of a text
 * of more than 16 KB the middle is left out. What holds the message of an HVD_ERROR_PEER counts as
 * the consequence of another rank's failure. Anything but HVD_OK: nobody will show it, and the
 * caller should. HVD_ERROR_UNSUPPORTED: there is no hvdrun. HVD_ERROR_FORKED: called in a child of
 * the rank, whose end is not the rank's. HVD_ERROR_INVALID_ARGUMENT: `text` is null or empty. */
HVD_API hvd_status hvd_report_failure(const char* text);

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
