/* What libhvd asks of MPI, as libhvd_mpi.so (mpi_plugin.c) offers it: libhvd itself knows nothing
 * of MPI and is never linked to it.
 *
 * There is one MPI in a process, so there is one of these, and it has state. Of the functions,
 * those above the line are called by one thread at a time, the others by several. Functions that
 * can fail return 0, or MPI's error code; those with `why` return 0, or 1 and write there what is
 * wrong and what to do, in `room` bytes with the NUL.
 */
#ifndef LIBHVD_TRANSPORT_MPI_PLUGIN_H_
#define LIBHVD_TRANSPORT_MPI_PLUGIN_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Another number for every change of what stands here. */
#define HVD_MPI_ABI 1u

/* An operation that is under way, and a message that has been found: MPI's own handles. */
typedef void* hvd_mpi_request;
typedef void* hvd_mpi_message;

typedef struct hvd_mpi_plugin {
  uint32_t abi; /* HVD_MPI_ABI, as the plugin was built with it; always first */

  /* Whether start() has succeeded in this process. */
  int (*started)(void);
  /* Finds out what can be known without the other ranks: whether MPI can be used here, and, once
   * the program has started it, whether this process is the same rank of as many there. */
  int (*check)(int rank, int size, char* why, size_t room);
  /* Starts MPI, unless that is done; then checks the same. All ranks call it, and MPI waits for
   * them. What was started here is ended when the process exits with code 0. */
  int (*start)(int rank, int size, char* why, size_t room);
  /* Makes what messages are kept apart by from the program's own. All ranks, once start() has
   * succeeded on all of them; MPI waits for them. */
  int (*join)(char* why, size_t room);
  /* A rank is lost: the process will not wait for it at its end. */
  void (*abandon)(void);
  /* The tags from first_tag() on have not been used in this process. */
  int (*first_tag)(void);
  /* Uses up `count` tags from `first` on; 1: there are no more. */
  int (*reserve_tags)(int first, int count);
  /* "Open MPI v4.1.4, …": valid for ever. */
  const char* (*library)(void);

  /* ---- Between start() and the end of MPI, by any number of threads. None of them waits. */

  /* The memory stays as it is until test() says that the operation is done. */
  int (*send)(const void* data, int bytes, int rank, int tag, hvd_mpi_request* request);
  /* Looks for the next message of a rank; when there is one, *message is not null, and is ours. */
  int (*find)(int rank, int tag, hvd_mpi_message* message, int* bytes);
  /* Takes it; as many bytes as were found. */
  int (*receive)(hvd_mpi_message message, void* data, int bytes, hvd_mpi_request* request);
  /* Whether the operation is done; after that the request is void. */
  int (*test)(hvd_mpi_request* request, int* done);
  /* What an error code means. */
  void (*describe)(int error, char* text, size_t room);
} hvd_mpi_plugin;

/* The one function that the library exports. */
#define HVD_MPI_ENTRY "hvd_mpi_plugin_functions"
typedef const hvd_mpi_plugin* (*hvd_mpi_entry)(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* LIBHVD_TRANSPORT_MPI_PLUGIN_H_ */
