/* The environment variables that hvdrun sets for a rank and that libhvd reads.
 *
 * Values are decimal integers without a sign unless stated otherwise. Ranks also get variables that
 * other software reads (torch's RANK, WORLD_SIZE…, HOROVOD_*, OMPI_COMM_WORLD_*); the names of
 * these are in launcher/job/launch.cpp.
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

/* 64 hexadecimal digits: the job's 256-bit secret. Both ends of every connection of data and
 * bootstrap prove it. */
#define HVD_ENV_JOB_KEY "HVD_JOB_KEY"

/* "PATH@OFFSET": this rank's status page, see status_page.h. */
#define HVD_ENV_STATUS "HVD_STATUS"

/* Number of an inherited eventfd that becomes readable when the page has a new notice. */
#define HVD_ENV_NOTICE_FD "HVD_NOTICE_FD"

/* Folder in shared memory that belongs to the job and is removed after it; mode 0700. */
#define HVD_ENV_SHM_DIR "HVD_SHM_DIR"

/* The first of 65 ports for libhvd's own bootstrap without PMIx. hvdrun reserves it for rank 0. If
 * it is unset, the ports begin at MASTER_PORT+65, because those up to MASTER_PORT+64 are the
 * program's.
 */
#define HVD_ENV_PORT "HVD_PORT"

/* The network for libhvd's connections between hosts: interfaces ("ib0,eth0", of which each host
 * uses those that it has) or the addresses in a network ("10.1.0.0/16"). The same value on all
 * hosts. Default: the network that reaches rank 0. */
#define HVD_ENV_INTERFACE "HVD_INTERFACE"

/* How the data of large allreduces gets between hosts: "tcp" (the default) or "mpi". The same on
 * all ranks. */
#define HVD_ENV_TRANSPORT "HVD_TRANSPORT"

/* "1" encrypts what libhvd sends from host to host (TLS 1.3 with a key made of HVD_JOB_KEY);
 * default "0". The same on all ranks. */
#define HVD_ENV_DATA_TLS "HVD_DATA_TLS"

/* "1": an allreduce of the same values has the same bits whatever the number of hosts; default "0".
 * The same on all ranks. */
#define HVD_ENV_REPRODUCIBLE "HVD_REPRODUCIBLE"
#define HVD_ENV_DIRECT_READS "HVD_DIRECT_READS"

/* NCCL's: the host that this rank is taken to be on. Ranks with different values are on different
 * hosts. */
#define HVD_ENV_NCCL_HOSTID "NCCL_HOSTID"

/* libhvd's plugin for MPI, by path or soname (default: libhvd_mpi.so beside libhvd.so, else the
 * loader's). */
#define HVD_ENV_MPI_LIBRARY "HVD_MPI_LIBRARY"

/* Seconds after which a host that sends nothing is reported as lost (default 4, at least 2; 0 for
 * never). */
#define HVD_ENV_HOST_TIMEOUT "HVD_HOST_TIMEOUT"

/* Seconds that hvd_init waits for the other ranks (default 120). */
#define HVD_ENV_START_TIMEOUT "HVD_START_TIMEOUT"

/* How collectives are carried out. If one of these is unset or empty, Horovod's variable applies
 * (HOROVOD_ instead of HVD_). */
#define HVD_ENV_FUSION_THRESHOLD                                                               \
  "HVD_FUSION_THRESHOLD" /* bytes of small tensors fused into one collective (default 65536; 0 \
                            disables fusion) */
#define HVD_ENV_FUSION_LARGEST \
  "HVD_FUSION_LARGEST" /* bytes of the largest tensor that is fused (default 4096) */
#define HVD_ENV_CACHE_CAPACITY \
  "HVD_CACHE_CAPACITY" /* names of tensors that ranks remember (default 4096; 0 for none) */
#define HVD_ENV_CYCLE_TIME "HVD_CYCLE_TIME" /* ignored; accepted for compatibility with Horovod */
#define HVD_ENV_AUTOTUNE \
  "HVD_AUTOTUNE" /* 1: searches for faster limits of fusion during the first steps (default 0) */
#define HVD_ENV_AUTOTUNE_LOG \
  "HVD_AUTOTUNE_LOG" /* rank 0 writes the search to this file, in Horovod's format */

/* 1: rank 0 does not say that all ranks send the same gradients (default 0). Horovod has no such
 * variable. */
#define HVD_ENV_DATA_CHECK_DISABLE "HVD_DATA_CHECK_DISABLE"

/* What happens if some ranks wait for others. Seconds may have decimals. */
#define HVD_ENV_STALL_CHECK_DISABLE \
  "HVD_STALL_CHECK_DISABLE" /* 1 disables the stall check (default 0) */
#define HVD_ENV_STALL_CHECK_TIME \
  "HVD_STALL_CHECK_TIME_SECONDS" /* prints a line after this time (default 60; 0 for never) */
#define HVD_ENV_STALL_SHUTDOWN_TIME \
  "HVD_STALL_SHUTDOWN_TIME_SECONDS" /* an error after this time (default 0, for never) */

/* hvdrun says that ranks have not joined each other yet after this many seconds (default 60; 0 for
 * never). */
#define HVD_ENV_JOIN_TIME "HVD_JOIN_TIME_SECONDS"

/* File for the timeline of all ranks; "DYNAMIC" is Horovod's word for one that a call starts later.
 */
#define HVD_ENV_TIMELINE "HVD_TIMELINE"

/* Megabytes that a rank's recording for the timeline may take (default 64). */
#define HVD_ENV_TIMELINE_MB "HVD_TIMELINE_MB"

/* The libraries that collectives on device memory use, by path or soname (default: those that the
 * process has already opened, else libcudart.so.13, .12 or .11.0, libcuda.so.1, and libnccl.so.2).
 */
#define HVD_ENV_CUDA_LIBRARY "HVD_CUDA_LIBRARY"
#define HVD_ENV_CUDA_DRIVER "HVD_CUDA_DRIVER"
#define HVD_ENV_NCCL_LIBRARY "HVD_NCCL_LIBRARY"

/* Seconds that the ranks wait for each other while NCCL starts (default 120). */
#define HVD_ENV_NCCL_TIMEOUT "HVD_NCCL_TIMEOUT"

/* If neither empty nor 0, rank 0 prints on stderr how collectives work between hosts. */
#define HVD_ENV_VERBOSE "HVD_VERBOSE"

#endif /* HVD_COMMON_VARIABLES_H_ */
