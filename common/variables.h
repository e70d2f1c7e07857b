/* The environment that hvdrun gives to a rank and that libhvd reads.
 *
 * All values are decimal integers without sign unless it says otherwise. Besides these the ranks
 * get what the ecosystem reads (torch's RANK, WORLD_SIZE…, HOROVOD_*, OMPI_COMM_WORLD_*); those
 * names are spelled where they are set, launcher/job/rank_environment.cpp.
 */
#ifndef HVD_COMMON_VARIABLES_H_
#define HVD_COMMON_VARIABLES_H_

#define HVD_ENV_RANK "HVD_RANK"             /* 0 … size-1 */
#define HVD_ENV_SIZE "HVD_SIZE"             /* ranks in the job */
#define HVD_ENV_LOCAL_RANK "HVD_LOCAL_RANK" /* rank among those on this host */
#define HVD_ENV_LOCAL_SIZE "HVD_LOCAL_SIZE" /* ranks on this host */
#define HVD_ENV_NODE_RANK "HVD_NODE_RANK"   /* host index, torch's GROUP_RANK */
#define HVD_ENV_NODE_COUNT "HVD_NODE_COUNT" /* hosts in the job */
#define HVD_ENV_HOSTNAME "HVD_HOSTNAME"     /* this host, as the job names it */
#define HVD_ENV_JOB_ID "HVD_JOB_ID"         /* 32 hexadecimal digits, new for each job */
#define HVD_ENV_LOCAL_DEVICE                                           \
  "HVD_LOCAL_DEVICE" /* CUDA ordinal for this rank; unset without GPUs \
                      */
#define HVD_ENV_RESTART_COUNT "HVD_RESTART_COUNT" /* 0 on the first start of a job */

/* 64 hexadecimal digits: the job's 256-bit secret. Every data and bootstrap connection proves it.
 */
#define HVD_ENV_JOB_KEY "HVD_JOB_KEY"

/* "PATH@OFFSET": this rank's status page, see status_page.h. */
#define HVD_ENV_STATUS "HVD_STATUS"

/* Number of an inherited eventfd that becomes readable when the page carries a new notice. */
#define HVD_ENV_NOTICE_FD "HVD_NOTICE_FD"

/* Folder in shared memory that belongs to the job and is swept after it; mode 0700. */
#define HVD_ENV_SHM_DIR "HVD_SHM_DIR"

/* The first of 65 ports for libhvd's own bootstrap without PMIx. hvdrun holds it for rank 0. Where
 * it is unset, the ports begin at MASTER_PORT+65: those up to MASTER_PORT+64 are the program's. */
#define HVD_ENV_PORT "HVD_PORT"

/* The network for libhvd's connections between hosts: interfaces ("ib0,eth0": those that a host
 * has) or the addresses in a network ("10.1.0.0/16"), the same value on all hosts (default: the one
 * that reaches rank 0). */
#define HVD_ENV_INTERFACE "HVD_INTERFACE"

/* What carries the data of large allreduces between hosts: "tcp" (the default) or "mpi"; the same
 * on all ranks. */
#define HVD_ENV_TRANSPORT "HVD_TRANSPORT"

/* "1": what libhvd sends from host to host is encrypted (TLS 1.3 with a key made of HVD_JOB_KEY);
 * "0" (the default). The same on all ranks. */
#define HVD_ENV_DATA_TLS "HVD_DATA_TLS"

/* libhvd's plugin for MPI, by path or soname (default: libhvd_mpi.so beside libhvd.so, else the
 * loader's). */
#define HVD_ENV_MPI_LIBRARY "HVD_MPI_LIBRARY"

/* Seconds after which a host from which nothing comes counts as lost (default 4, at least 2; 0:
 * never). */
#define HVD_ENV_HOST_TIMEOUT "HVD_HOST_TIMEOUT"

/* Seconds that hvd_init waits for the other ranks (default 120). */
#define HVD_ENV_START_TIMEOUT "HVD_START_TIMEOUT"

/* How collectives are carried out. Horovod's variables, HOROVOD_ in the place of HVD_, count where
 * these are unset or empty. */
#define HVD_ENV_FUSION_THRESHOLD \
  "HVD_FUSION_THRESHOLD" /* bytes of small tensors that go together (default 65536; 0: none do) */
#define HVD_ENV_CACHE_CAPACITY \
  "HVD_CACHE_CAPACITY" /* names of tensors that the ranks remember (default 4096; 0: none) */
#define HVD_ENV_CYCLE_TIME "HVD_CYCLE_TIME" /* read by nobody: there is no cycle */

/* What happens when some ranks wait for others. Seconds may have decimals. */
#define HVD_ENV_STALL_CHECK_DISABLE "HVD_STALL_CHECK_DISABLE" /* 1: nothing (default 0) */
#define HVD_ENV_STALL_CHECK_TIME \
  "HVD_STALL_CHECK_TIME_SECONDS" /* one line after this time (default 60; 0: none) */
#define HVD_ENV_STALL_SHUTDOWN_TIME \
  "HVD_STALL_SHUTDOWN_TIME_SECONDS" /* an error after this time (default 0: never) */

/* File for the timeline of all ranks; "DYNAMIC" is Horovod's word for none yet. */
#define HVD_ENV_TIMELINE "HVD_TIMELINE"

/* Megabytes that a rank's recording for it may take (default 64). */
#define HVD_ENV_TIMELINE_MB "HVD_TIMELINE_MB"

/* The libraries that collectives on device memory use, by path or soname (default: what the process
 * already has, else libcudart.so.13, .12 or .11.0, libcuda.so.1, and libnccl.so.2). */
#define HVD_ENV_CUDA_LIBRARY "HVD_CUDA_LIBRARY"
#define HVD_ENV_CUDA_DRIVER "HVD_CUDA_DRIVER"
#define HVD_ENV_NCCL_LIBRARY "HVD_NCCL_LIBRARY"

/* Seconds that the ranks wait for each other while NCCL starts (default 120). */
#define HVD_ENV_NCCL_TIMEOUT "HVD_NCCL_TIMEOUT"

/* Not empty and not 0: libhvd's rank 0 says on stderr how collectives go between hosts. */
#define HVD_ENV_VERBOSE "HVD_VERBOSE"

#endif /* HVD_COMMON_VARIABLES_H_ */
