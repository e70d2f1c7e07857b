/* libhvd: collectives between the ranks of a training job. The C ABI, for C11 and C++.
 *
 * Use. A program calls hvd_init() once on every rank, then the collectives, then hvd_shutdown().
 * After that it may call hvd_init() again. The same program runs under hvdrun, `mpirun` (Open MPI),
 * `srun --mpi=pmix`, torchrun, and alone, where it is rank 0 of 1.
 *   The time from hvd_init() to hvd_shutdown() is a session. Messages call the first session of a
 * process generation 1, the next one generation 2, and so on. In a job that continues when ranks
 * are lost (hvd/elastic.h) the launcher numbers the generations, and hvd_reform() ends a session,
 * too.
 *
 * Errors. A function returns a hvd_status: HVD_OK (0), or one of HVD_ERROR_*. A function that
 * returns a number (an `int` of 0 or more) returns the negative of the status instead.
 * hvd_last_error() returns the text of the last failure on the calling thread. No function throws.
 *   A collective checks the arguments of all ranks before it writes anything. If one rank passes
 * another count, type, op or root, or a null buffer, all ranks return HVD_ERROR_MISMATCH or
 * HVD_ERROR_INVALID_ARGUMENT with a message that names the tensor and the ranks. The outputs are
 * unchanged, and the next collective works.
 *   When a rank dies or leaves, all ranks that wait for it return HVD_ERROR_PEER, and so does every
 * later collective, at once. Only hvd_shutdown() and a new hvd_init() end this state, or
 * hvd_reform().
 *
 * Order. There are two kinds of collectives.
 *   Calls with a name (hvd_options), calls on a process set and calls in the background
 * (hvd_allreduce_async, ...) may come in any order and from any thread, because the ranks match
 * them by name. A blocking call waits until all ranks have called its name. So the names that one
 * thread of each rank calls in turn must not wait for each other in a circle. The stall check
 * (docs/reference/libhvd.md) reports a name that some rank never calls.
 *   All other calls are the fastest. All ranks must make them in the same order. A mutex runs them
 * one after another, so a program whose threads make such calls must itself keep the order the same
 * on all ranks.
 *
 * Threads. Every function may be called from any thread, unless its comment says otherwise.
 *
 * Fork. In a child that was forked after hvd_init only the queries work (hvd_rank, ...). A
 * collective there returns HVD_ERROR_FORKED, and HVD_ERROR_PEER on all ranks. exec(3) works, and so
 * does exit(3). A child that was forked after hvd_shutdown cannot join the job either, if the job
 * has PMIx or continues when ranks are lost.
 *
 * Exit. If a program exits (exit(3), or return from main) without hvd_shutdown, an exit handler
 * shuts the runtime down. The other ranks treat _exit(2), a signal and exec(3) without hvd_shutdown
 * as the death of the rank.
 *
 * Results. Results have the same bits on all ranks. They have the same bits in every run that
 * places the ranks on hosts in the same way, whatever else a call contains. Each element is reduced
 * over the ranks of each host in ascending order, then over the hosts in the order of their first
 * ranks. On one host, or with one rank on each host, this is the order of ranks. With
 * HVD_REPRODUCIBLE=1 on all ranks it always is, and nothing is compressed: then an allreduce or
 * reducescatter of the same values has the same bits on any number of hosts. NCCL adds values in
 * device memory in an order of its own. With HVD_REPRODUCIBLE=1 sums of floating point numbers go
 * through host memory instead.
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

/* One of the values below. Later versions may add values: treat an unknown one as a failure. */
typedef int32_t hvd_status;

enum {
  HVD_OK = 0,
  HVD_ERROR_INVALID_ARGUMENT = 1, /* an argument is not valid, on this rank or on another */
  HVD_ERROR_NOT_INITIALIZED = 2,  /* called before hvd_init or after hvd_shutdown */
  HVD_ERROR_MISMATCH = 3,         /* the ranks made calls that differ */
  HVD_ERROR_PEER = 4,             /* a rank died or left, or libhvd cannot continue there; no
                                     collective works any more */
  HVD_ERROR_UNSUPPORTED = 5,      /* this version or build does not have it */
  HVD_ERROR_ENVIRONMENT = 6,      /* an environment variable has a value that is not valid */
  HVD_ERROR_TIMEOUT = 7,          /* some ranks did not start within HVD_START_TIMEOUT seconds */
  HVD_ERROR_SYSTEM = 8,           /* a system call or a library failed */
  HVD_ERROR_FORKED = 9,           /* called in a child that was forked after hvd_init */
  HVD_ERROR_ROOT = 10,            /* what one rank ran for all failed there (hvd/io.h) */
  HVD_ERROR_REMOVED = 11          /* the job does not want this process any more (hvd/elastic.h) */
};

/* Returns the text of the last failure on this thread, in UTF-8; "" if nothing has failed. The text
 * is valid until the next failure on this thread. */
HVD_API const char* hvd_last_error(void);

/* Returns the meaning of a status in a few words, "the ranks made calls that differ"; "unknown
 * status" for a value that this version does not have. Never null. hvd_last_error() says more. */
HVD_API const char* hvd_status_string(hvd_status status);

/* Returns the library's version, "0.1.0". */
HVD_API const char* hvd_version(void);

/* Returns 1 if this libhvd has CUDA kernels of its own, which pack small tensors and compute
 * Adasum, otherwise 0. *about, unless the pointer is null, gets the GPUs that they are for, "for
 * compute capability 9.0 and later", or why there are none, "libhvd was built without nvcc". */
HVD_API int hvd_has_kernels(const char** about);

/* ---- The job ------------------------------------------------------------------------------ */

/* Joins the job: finds the other ranks, and maps the shared memory through which they communicate.
 * Returns when all ranks have done so. Waits for the others at most HVD_START_TIMEOUT seconds
 * (default 120), then returns HVD_ERROR_TIMEOUT. Without PMIx, waits as long once more for the
 * answer of a rank 0 that hangs. Returns HVD_ERROR_INVALID_ARGUMENT if called between hvd_init and
 * hvd_shutdown.
 *   Finds the ranks through PMIx if a launcher offers it, otherwise by HVD_RANK and HVD_SIZE or
 * torch's RANK and WORLD_SIZE with MASTER_ADDR and MASTER_PORT. Without any of these the process is
 * alone. */
HVD_API hvd_status hvd_init(void);

/* A list of `count` ranks. */
typedef struct hvd_rank_list {
  const int* ranks;
  size_t count;
} hvd_rank_list;

/* Options of hvd_init_with(). Set struct_size to sizeof(hvd_init_options) and all unused fields to
 * zero. Later versions add fields at the end, as in hvd_options. */
typedef struct hvd_init_options {
  size_t struct_size;
  /* The ranks of the job that start together; null: all. Each of them passes the same list. Until
   * hvd_shutdown "all ranks" are these. Their numbers are their positions in the list: ranks[0] is
   * rank 0 for hvd_rank(), roots and process sets. Only messages and hvdrun continue to use ranks
   * in the job. The other ranks may start with a list of their own, or not at all. After
   * hvd_shutdown() a rank may start with other ranks. */
  const int* ranks;
  size_t rank_count;
  /* Process sets (see below) that hvd_init_with() makes. They get the numbers 1, 2, ... in this
   * order. Their ranks are numbers as hvd_rank() returns. All ranks that start pass the same sets.
   */
  const hvd_rank_list* process_sets;
  size_t process_set_count;
} hvd_init_options;

/* Does what hvd_init() does, for some of the ranks and with process sets. A null pointer to options
 * means all defaults.
 *   Returns HVD_ERROR_INVALID_ARGUMENT if the list of ranks is empty, lacks this rank, or contains
 * a rank twice or one that the job does not have. Ranks whose lists differ do not find each other,
 * and return HVD_ERROR_TIMEOUT after HVD_START_TIMEOUT seconds. If process sets are not valid or
 * differ between ranks, all ranks return HVD_ERROR_INVALID_ARGUMENT or HVD_ERROR_MISMATCH.
 *   Without PMIx, ranks[0] does what rank 0 does otherwise: it must be on the host that MASTER_ADDR
 * names, and listens on a port there (HVD_PORT in docs/reference/environment.md). */
HVD_API hvd_status hvd_init_with(const hvd_init_options* options);

/* Leaves the job. Does not wait for the other ranks, except to write a timeline that is running
 * (hvd/timeline.h). A rank that still calls a collective gets HVD_ERROR_PEER with a message that
 * this rank has left. Returns HVD_ERROR_NOT_INITIALIZED if not initialised. */
HVD_API hvd_status hvd_shutdown(void);

/* Returns 1 between hvd_init and hvd_shutdown, otherwise 0. */
HVD_API int hvd_initialized(void);

/* Each of these returns a number, or -HVD_ERROR_NOT_INITIALIZED. */
HVD_API int hvd_rank(void);           /* 0 ... size-1 */
HVD_API int hvd_size(void);           /* ranks that started together: all, or the chosen ones */
HVD_API int hvd_local_rank(void);     /* rank among those on this host */
HVD_API int hvd_local_size(void);     /* ranks on this host */
HVD_API int hvd_local_device(void);   /* index of this rank's GPU, for cudaSetDevice: the one that
                                         hvdrun has chosen, otherwise the local rank; modulo the
                                         number of GPUs in CUDA_VISIBLE_DEVICES, if that is set.
                                         Without GPUs it means nothing */
HVD_API int hvd_cross_rank(void);     /* rank among those with this local rank, one per host */
HVD_API int hvd_cross_size(void);     /* number of ranks with this local rank */
HVD_API int hvd_node_rank(void);      /* index of this host, 0 ... node_count-1 */
HVD_API int hvd_node_count(void);     /* hosts of these ranks */
HVD_API int hvd_restart_count(void);  /* earlier starts of the job, by hvdrun or torchrun and by
                                         SLURM's requeue together; 0 in the first start */
HVD_API int hvd_is_homogeneous(void); /* 1 if all hosts have the same number of ranks, else 0 */

/* ---- Collectives -------------------------------------------------------------------------- */

/* The type of an element. The numbers are Horovod's where Horovod has the type. */
typedef int32_t hvd_type;
enum {
  HVD_UINT8 = 0,
  HVD_INT8 = 1,
  HVD_UINT16 = 2,
  HVD_INT16 = 3,
  HVD_INT32 = 4,
  HVD_INT64 = 5,
  HVD_FLOAT16 = 6, /* IEEE 754 binary16; reduced in float32, then rounded once to nearest even */
  HVD_FLOAT32 = 7,
  HVD_FLOAT64 = 8,
  HVD_BOOL = 9,     /* one byte: 0 is false, all else true; results are 0 or 1 */
  HVD_BFLOAT16 = 10 /* the upper half of a float32; reduced like float16 */
};

/* A reduction. The numbers are Horovod's.
 *   Integers: sum and product wrap modulo 2^bits. An average is the exact sum divided by the number
 * of ranks, truncated towards zero; it cannot overflow.
 *   Floating point: an average is the sum divided by the number of ranks. Min and max return NaN if
 * any rank's value is NaN.
 *   Bool: sum and max are "or", product and min are "and". There is no average.
 *   Adasum (S. Maleki et al., "Scaling Distributed Training with Adaptive Summation",
 * arXiv:2006.02924): only for allreduces of floating point types. The tensors of ranks 0 and 1, 2
 * and 3, ... are combined, then the results in pairs, and so on. Two tensors a and b give
 *   (1 - a.b / (2 |a|^2)) a + (1 - a.b / (2 |b|^2)) b.
 * The factor of a tensor of zeros is 1. The result is the sum if a and b are orthogonal, and the
 * average if they are equal. Each tensor of a group is combined by itself. The computation is in
 * double, and rounds once. The number of ranks must be a power of two; otherwise all ranks return
 * HVD_ERROR_INVALID_ARGUMENT. */
typedef int32_t hvd_op;
enum { HVD_AVERAGE = 0, HVD_SUM = 1, HVD_ADASUM = 2, HVD_MIN = 3, HVD_MAX = 4, HVD_PRODUCT = 5 };

/* Where the buffers of a call are (hvd_options.memory).
 *   HVD_CUDA: all buffers are in the memory of one GPU (cudaMalloc, or managed memory). A rank uses
 * the same GPU in all calls. `splits`, `rows_by_rank` and `received` are in host memory. The call
 * is enqueued on the stream. The ranks wait for each other, but not for their GPUs. A call in the
 * background runs after the work that the stream had when it was submitted, and before the work
 * that the stream gets after hvd_wait(). hvd_poll() and hvd_wait() report it done when it is
 * enqueued for the GPU.
 *   When a rank dies, the calls on the streams end and their results are lost. The next call of
 * this library returns the error.
 *   NCCL does the arithmetic: sums of 16-bit floats may be rounded more than once, min and max drop
 * NaNs, and NCCL chooses the order of summation. What NCCL cannot do goes through host memory, and
 * the CPU waits: 16-bit integers, bool, averages of integers, factors that NCCL cannot apply,
 * Adasum without kernels, sums while a rank has joined or with HVD_REPRODUCIBLE=1, ranks that share
 * a GPU (and NCCL_HOSTID), and between hosts all calls with HVD_DATA_TLS=1 or with compression. */
enum { HVD_HOST = 0, HVD_CUDA = 1 };

/* The form in which an allreduce sends its data to other hosts (hvd_options.compression), for sums
 * and averages of floating point types. Sums are computed in float32. Each host's sum is rounded to
 * the form once, and so is the result. All ranks get the same bits.
 *
 * Nothing is compressed on one host, in calls of up to 32 KiB (in the background: after fusion),
 * and if the ranks have no connections for large messages. So the result depends on the hosts by
 * more than the order of the sum. With HVD_CUDA and several hosts, a compressed allreduce goes
 * through host memory.
 *
 * HVD_COMPRESSION_FLOAT16: 11 bits of precision. A host's sum beyond 65504 becomes infinite.
 *
 * HVD_COMPRESSION_BFLOAT16: 8 bits of precision, the range of float32.
 *
 * HVD_COMPRESSION_INT8: 8-bit integers, and a scale for each 256 elements. The error of an element
 * is at most 1/254 of the largest magnitude among these. An infinity or a NaN is an error on all
 * ranks. A call with a name has error feedback: what rounding has left out is added in the next
 * call of that name. It is forgotten when HVD_CACHE_CAPACITY newer names have been used. */
enum {
  HVD_COMPRESSION_NONE = 0,
  HVD_COMPRESSION_FLOAT16 = 1,
  HVD_COMPRESSION_BFLOAT16 = 2,
  HVD_COMPRESSION_INT8 = 3
};

/* Options of a call. Set struct_size to sizeof(hvd_options) and all unused fields to zero. A null
 * pointer to options means all defaults. Later versions add fields at the end. A library that does
 * not know a field returns HVD_ERROR_INVALID_ARGUMENT unless the field is zero. "Must agree": all
 * ranks pass the same, otherwise all ranks return an error. */
typedef struct hvd_options {
  size_t struct_size;
  const char* name; /* the tensor's name, for messages and hvdrun, which show its first 127 bytes;
                       must agree; null: no name */
  /* For allreduce and reducescatter, except of bool. Each input is multiplied by prescale before
   * the reduction, and the result by postscale. 0 means 1, unless has_factors is 1. Must agree. For
   * floating point types of up to 32 bits the factor is rounded to float32. Products of integers
   * are computed in double and truncated. */
  double prescale;
  double postscale;
  int32_t process_set; /* the ranks that take part, see hvd_add_process_set; 0: all */
  int32_t priority;    /* of the collectives that are ready in the background, the one with the
                          largest priority runs first; equal ones run in the order of submission. If
                          ranks differ, the rank that submits first decides. */
  int32_t memory;      /* HVD_HOST or HVD_CUDA: where the buffers are; must agree */
  int32_t compression; /* HVD_COMPRESSION_...: for allreduce; must agree */
  void* stream;        /* with HVD_CUDA: a cudaStream_t; null: the default stream */
  /* For allgather and alltoall: allocates the output once the number of its rows is known. The call
   * then passes a null `output` and 0 output_rows. Some ranks may use this and others not. Called
   * at most once, with the number of rows of this rank's result, which may be 0, on the thread that
   * runs the call. rows_by_rank and received are filled in before. Must not call this library, and
   * must not throw.
   *   The memory belongs to the caller, even if the call fails later. It must not overlap the
   * input. With HVD_CUDA it must be on the GPU of the call, which is the current device during this
   * function. Work that still uses the memory must have been on the stream before the call (in the
   * background: before its submission).
   *   May return null if the result has no bytes. Otherwise null means that there is no memory:
   * this rank's call returns HVD_ERROR_SYSTEM, and the other ranks get their results. The same
   * happens with memory that cannot be used. */
  void* (*allocate)(void* context, size_t rows);
  void* allocate_context; /* must stay valid until the call is done */
  /* The tensor's shape, "[64, 3, 7, 7]"; of allgather and alltoall without the first dimension,
   * which may differ. Must agree, and appears in messages. It finds ranks whose tensors have the
   * same number of elements in other shapes. Bytes after the 63rd are ignored. Null: no shape. */
  const char* shape;
  /* Not null: this rank cannot take part in the call, for example because it could not make its
   * data, and this is why. The other ranks then do not wait for it: all ranks return
   * HVD_ERROR_INVALID_ARGUMENT with the rank and this text. 191 bytes of it are used. The call
   * reads and writes no buffer on any rank, so its other arguments may be null or 0. */
  const char* fault;
  int64_t has_factors; /* 1: prescale and postscale are factors as they are, also if they are 0 */
  /* 1: each rank gives what it has computed from its own data, such as gradients. If all ranks give
   * the same in the first ten steps, rank 0 prints a line on stderr: no one has divided the data.
   * For an allreduce, grouped allreduce or reducescatter of all ranks that has a name.
   * HVD_DATA_CHECK_DISABLE=1 silences it. */
  int64_t gradients;
} hvd_options;

/* An allocating function for languages in which a function that C calls may fail before it can
 * return a value. Python, for example, may raise a signal's exception there. *memory is null before
 * the call. */
typedef struct hvd_allocator {
  void (*allocate)(void* context, size_t rows, void** memory);
  void* context;
} hvd_allocator;

/* Calls the hvd_allocator at `allocator` and returns the memory that it has set. For
 * hvd_options.allocate, with that address as allocate_context. */
HVD_API void* hvd_call_allocator(void* allocator, size_t rows);

/* Allocates `bytes` bytes that the other ranks of this host can access, aligned to a page and set
 * to zero. When all ranks' buffers of a call are in such memory, the call does not copy them, which
 * makes large calls two to three times as fast. Otherwise it is used like ordinary memory. It is
 * valid until hvd_free, also after hvd_shutdown. After HVD_ERROR_PEER other ranks may still write
 * into it until they know of the failure. A forked child shares it with its parent, whereas it has
 * a copy of ordinary memory.
 *   The memory is in a file without a name (memfd_create(2)), which the other ranks open in /proc.
 * So calls do not copy it in later sessions either. If ranks of the host cannot open each other's
 * files there, as in pid namespaces of their own, the memory is in /dev/shm (or HVD_SHM_DIR); later
 * sessions then copy it. If there is no room, the memory is ordinary, and one line on stderr says
 * how much would be needed.
 *   Errors: `bytes` is 0; the system does not have that much memory. */
HVD_API hvd_status hvd_alloc(size_t bytes, void** memory);

/* Frees memory of hvd_alloc. No call that uses it may be in progress. Does nothing with null.
 * Error: hvd_alloc did not return this memory, or it was freed before. */
HVD_API hvd_status hvd_free(void* memory);

/* Shares `bytes` bytes of the program's own memory with the other ranks of the host, as hvd_alloc
 * does. Address and content stay the same. The memory must be whole private pages of the program
 * (posix_memalign(3), or mmap(2) with MAP_PRIVATE | MAP_ANONYMOUS). What madvise(2), mlock(2) and
 * mbind(2) set for these pages is lost. Memory that cannot be shared stays ordinary, as with
 * hvd_alloc. No thread may use the memory during the call.
 *   Errors: address or size is not a multiple of the page size; the address range is not mapped; a
 * part of it is shared already. */
HVD_API hvd_status hvd_register(void* memory, size_t bytes);

/* Makes memory of hvd_register ordinary again and keeps its content. Call it before the memory is
 * freed or unmapped. No call that uses it may be in progress, and no thread may use it during this
 * call. Does nothing with null.
 *   Errors: the memory was not registered; there is no memory for the copy, and it stays shared. */
HVD_API hvd_status hvd_unregister(void* memory);

/* For all collectives below: buffers belong to the caller and are in host memory, unless the
 * options say HVD_CUDA. A buffer may be null if its count is 0. `output` may be `input` (in place).
 * Otherwise they must not overlap, or the call returns HVD_ERROR_INVALID_ARGUMENT. `count` is in
 * elements. `options` may be null. */

/* Reduces `count` elements: output[i] = op over all ranks of input[i]. `count`, `type` and `op` are
 * the same on all ranks. */
HVD_API hvd_status hvd_allreduce(const void* input, void* output, size_t count, hvd_type type,
                                 hvd_op op, const hvd_options* options);

/* Copies `count` elements from the buffer of rank `root` to the buffers of all ranks. `count`,
 * `type` and `root` are the same on all ranks. On one host, the root of a broadcast without a name,
 * of 4 KiB at most, may return before the other ranks have the data. If the call of a rank does
 * not fit together with it, only that rank returns the error at once. All ranks then return
 * it from the next call that is not such a broadcast, or from the 16th one at the latest. */
HVD_API hvd_status hvd_broadcast(void* buffer, size_t count, hvd_type type, int root,
                                 const hvd_options* options);

/* Concatenates the rows of all ranks, in the order of ranks, into `output` on all ranks. A row has
 * `row_size` elements (the product of all dimensions but the first), the same on all ranks. `rows`
 * may differ between ranks.
 *   `output_rows`: the number of rows that fit into output; hvd_options.allocate allocates one that
 * fits. `rows_by_rank` (an array of `size` numbers, may be null) gets the number of rows of each
 * rank. If any rank's output is too small, all ranks return HVD_ERROR_INVALID_ARGUMENT;
 * rows_by_rank is filled in even then. */
HVD_API hvd_status hvd_allgather(const void* input, size_t rows, size_t row_size, hvd_type type,
                                 void* output, size_t output_rows, size_t* rows_by_rank,
                                 const hvd_options* options);

/* Reduces `rows` rows of `row_size` elements and gives each rank a part of the result, in the order
 * of ranks. A rank gets rows / size rows; the first rows % size ranks get one more. `output` must
 * have room for this rank's part, and must not overlap `input`. All arguments but the buffers are
 * the same on all ranks. */
HVD_API hvd_status hvd_reducescatter(const void* input, size_t rows, size_t row_size, hvd_type type,
                                     hvd_op op, void* output, const hvd_options* options);

/* Sends rows to all ranks and receives rows from all. `input` has `rows` rows: first those for rank
 * 0, then those for rank 1, ... `splits` (an array of `size` numbers that add up to `rows`):
 * splits[r] rows are for rank r; null: the same number for each rank. `output` gets the rows from
 * rank 0, then those from rank 1, ... `received` (an array of `size` numbers, may be null) gets the
 * number of rows from each rank. `row_size`, `output_rows` and hvd_options.allocate are as for
 * hvd_allgather. If any rank's output is too small, all ranks return HVD_ERROR_INVALID_ARGUMENT;
 * `received` is filled in even then. */
HVD_API hvd_status hvd_alltoall(const void* input, const size_t* splits, size_t rows,
                                size_t row_size, hvd_type type, void* output, size_t output_rows,
                                size_t* received, const hvd_options* options);

/* Returns when all ranks have called it. */
HVD_API hvd_status hvd_barrier(const hvd_options* options);

/* Does an allreduce of several tensors of one type as one call: if the ranks do not agree on all
 * tensors, none is written. `inputs`, `outputs` and `counts` are arrays of `tensors` entries;
 * counts are in elements. Small tensors share messages. The arrays may be freed when this function
 * or hvd_grouped_allreduce_async returns. The buffers must stay until the call is done. */
HVD_API hvd_status hvd_grouped_allreduce(size_t tensors, const void* const* inputs,
                                         void* const* outputs, const size_t* counts, hvd_type type,
                                         hvd_op op, const hvd_options* options);

/* Joins: for a rank that has no more data while others still have. It takes part in the calls of
 * the others until all ranks have called hvd_join, and returns then. It contributes zeros to sums
 * and averages (hvd_allreduce, hvd_grouped_allreduce); those on device memory go through host
 * memory meanwhile. An average is still divided by the number of all ranks. Any other collective
 * returns HVD_ERROR_INVALID_ARGUMENT on the ranks that call it, with a message that names the ranks
 * that have joined.
 *   The same applies to the other process sets that this rank is in. While this function waits,
 * other threads of this rank cannot submit anything.
 *   *last_rank (may be null) gets the rank that joined last in time, the same on all ranks. If
 * ranks of several hosts join last within microseconds of each other, it is one of these. */
HVD_API hvd_status hvd_join(int* last_rank);

/* ---- Process sets -------------------------------------------------------------------------
 * A process set is some of the ranks, with collectives of their own: hvd_options.process_set. Set 0
 * is all ranks. Inside a set the ranks have the order of hvd_rank(). Roots are ranks among all
 * ranks. hvd_init_with can make sets at the start. A call on a set by a rank that is not in it
 * returns HVD_ERROR_INVALID_ARGUMENT. */

/* A collective: makes a set of `count` ranks, given in any order. All ranks of the job call this
 * with the same ranks, including ranks that are not in the set. *process_set gets the set's number,
 * the same on all ranks. If one rank's arguments are not valid, all ranks return the error. */
HVD_API hvd_status hvd_add_process_set(const int* ranks, size_t count, int32_t* process_set);

/* A collective: removes a set. All ranks of the job call this. Calls that are pending on the set
 * fail with HVD_ERROR_NOT_INITIALIZED. hvd_shutdown removes all sets. */
HVD_API hvd_status hvd_remove_process_set(int32_t process_set);

/* Each of these returns a number, or the negative of a status. */
HVD_API int hvd_process_set_size(int32_t process_set);
HVD_API int hvd_process_set_rank(int32_t process_set);     /* this rank's in it, 0 ... size-1 */
HVD_API int hvd_process_set_included(int32_t process_set); /* 1 if this rank is in it, else 0 */
/* Returns the number of its ranks, and writes the first `room` of them to `ranks` (may be null). */
HVD_API int hvd_process_set_ranks(int32_t process_set, int* ranks, size_t room);
/* Returns the number of sets, including set 0, and writes the first `room` of their numbers to
 * `process_sets` (may be null). */
HVD_API int hvd_process_sets(int32_t* process_sets, size_t room);

/* ---- Collectives in the background --------------------------------------------------------
 * Each of these submits a collective and returns at once. The arguments are those of the blocking
 * function of the same name. Ranks may submit in any order and from any thread: the ranks match
 * submissions by name. They match those without a name by kind and order, separately from the
 * blocking calls above. A name may be submitted again when it is done.
 *   Buffers, `splits`, `rows_by_rank` and `received` must stay until the collective is done. Names
 * and options need not. hvd_wait() returns the status that the blocking function would return, and
 * releases the handle. A handle that is never waited for is kept until hvd_shutdown. Collectives
 * that are not done at hvd_shutdown fail with HVD_ERROR_NOT_INITIALIZED. Small allreduces that are
 * ready at the same time run together.
 *   A handle is valid in its session only. After hvd_shutdown, also in a later session, it gives
 * HVD_ERROR_NOT_INITIALIZED with a message that names its generation. No later session gives the
 * same handle again. */
typedef int64_t hvd_handle; /* 0 is no handle */

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

/* Sets *done to 1 if the collective is done, otherwise to 0. Returns at once. Error: there is no
 * such handle, or its session is over. */
HVD_API hvd_status hvd_poll(hvd_handle handle, int* done);

/* Waits until the collective is done, but at most `seconds` (0 or less: not at all; infinity: as
 * long as it takes). Sets *done as hvd_poll does. Call hvd_wait() in any case. Errors: those of
 * hvd_poll; `seconds` is NaN. */
HVD_API hvd_status hvd_wait_for(hvd_handle handle, double seconds, int* done);

/* Waits until the collective is done, returns its status and releases the handle. Error: there is
 * no such handle, or its session is over. */
HVD_API hvd_status hvd_wait(hvd_handle handle);

/* ---- Metrics ------------------------------------------------------------------------------ */

/* Which value of a metric is the best: the smallest (a loss) or the largest (an accuracy). For
 * checkpoints (hvd/checkpoint.h) and early stopping (hvd/agree.h). */
typedef int32_t hvd_best;
enum { HVD_BEST_NONE = 0, HVD_BEST_MIN = 1, HVD_BEST_MAX = 2 };

/* ---- To and from the launcher ----------------------------------------------------------------
 * hvdrun shows progress and metrics in its status line and its report, also without hvd_init. Under
 * other launchers these functions return HVD_OK and show nothing, except hvd_report_failure. */

/* What hvd_progress reports. Set struct_size to sizeof(hvd_progress_values), and `known` to the
 * bits of the fields that are set. */
enum {
  HVD_PROGRESS_STEP = 0x1,
  HVD_PROGRESS_STEPS = 0x2,
  HVD_PROGRESS_SAMPLES = 0x4,
  HVD_PROGRESS_EPOCH = 0x8,
  HVD_PROGRESS_EPOCHS = 0x10,
  HVD_PROGRESS_LOSS = 0x20
};
typedef struct hvd_progress_values {
  size_t struct_size;
  uint32_t known;
  uint32_t reserved; /* zero */
  int64_t step;      /* training steps done, over all epochs */
  int64_t steps;     /* how many there will be */
  int64_t samples;   /* that this rank trained on since its last call */
  int64_t epoch;     /* the epoch that has begun, from 0; see hvd_set_epoch */
  int64_t epochs;    /* how many there will be */
  double loss;       /* NaN and infinities are valid */
} hvd_progress_values;

/* Reports how far the training is: hvdrun shows it on its status line and in its report. It does
 * the same as hvd_set_step, hvd_add_samples, hvd_set_epoch and hvd_set_metric("loss"), in one call
 * of less than a microsecond that a program may make in each step. It only writes to memory that
 * hvdrun reads.
 *   HVD_ERROR_INVALID_ARGUMENT: a negative number; `steps` below `step` or `epochs` below `epoch`;
 * an unknown bit; a null pointer; no room for the metric "loss". Then nothing is reported. */
HVD_API hvd_status hvd_progress(const hvd_progress_values* values);

HVD_API hvd_status hvd_set_step(uint64_t step);       /* training steps done so far */
HVD_API hvd_status hvd_add_samples(uint64_t samples); /* adds samples that this rank trained on */

/* Begins an epoch, counted from 0, and ends the one before. hvdrun's report has the duration and
 * the samples (hvd_add_samples) of each of the last ten epochs, and `hvdrun scale` compares them.
 * After the last epoch call this once more, with the number of epochs. Otherwise the last epoch
 * lasts until hvd_shutdown(), with all that the program does in between. The same number again
 * changes nothing. */
HVD_API hvd_status hvd_set_epoch(uint64_t epoch);

/* Sets a metric of the training: "loss", "accuracy" (0 to 1) or another name. There is room for 6
 * names of up to 23 bytes. hvdrun's report has the last value of each. `hvdrun scale` compares
 * numbers of ranks by the values of the lowest rank that has set them. NaN and infinities are
 * valid. Errors: the name is null, empty or too long; there are 6 other names. */
HVD_API hvd_status hvd_set_metric(const char* name, double value);

/* Reports why this rank is about to end. hvdrun's report shows `text` (UTF-8, such as a traceback
 * of several lines) once for all ranks that report the same, so the caller need not print it. Works
 * also before hvd_init and after hvd_shutdown. The last call replaces earlier ones. A text of more
 * than 16 KB loses its middle. A text that contains the message of an HVD_ERROR_PEER is taken for
 * the consequence of another rank's failure. In a job that continues when ranks are lost
 * (hvd/elastic.h) this rank is lost when it ends, also if it calls hvd_shutdown before.
 *   Any status but HVD_OK means that hvdrun will not show the text, so the caller should print it.
 * HVD_ERROR_UNSUPPORTED: there is no hvdrun. HVD_ERROR_FORKED: called in a child of the rank, whose
 * end is not the rank's. HVD_ERROR_INVALID_ARGUMENT: `text` is null or empty. */
HVD_API hvd_status hvd_report_failure(const char* text);

/* Bits of hvd_notice. */
#define HVD_NOTICE_STOP 0x1u      /* please stop at a step boundary, see stop_at_step */
#define HVD_NOTICE_TIME_LEFT 0x2u /* the end of the job is known, see hvd_time_left */

/* Reads what the launcher has asked of this rank so far: *bits gets HVD_NOTICE_*. With
 * HVD_NOTICE_STOP, *stop_at_step gets the step to stop at (0: the next). Either pointer may be
 * null. Ranks may see a notice at different moments, so they must agree on it before they act: with
 * an allreduce, or hvd_agree_stop (hvd/agree.h). */
HVD_API hvd_status hvd_notice(uint32_t* bits, uint64_t* stop_at_step);

/* Sets *seconds to the time until the job must be over: negative if it has passed, infinity if it
 * is not known. The launcher or SLURM (SLURM_JOB_END_TIME) knows it; the sooner of both applies. */
HVD_API hvd_status hvd_time_left(double* seconds);

#ifdef __cplusplus
}
#endif

#endif /* HVD_HVD_H_ */
