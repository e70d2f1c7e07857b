/* The functions of MPI that libhvd needs, as libhvd_mpi.so (mpi_plugin.c) offers them. libhvd
 * itself knows nothing of MPI and is never linked to it.
 *
 * A process has one MPI, so it has one of these tables, which has state. One thread at a time calls
 * the functions above the line, several threads call those below. Functions that can fail return 0
 * or MPI's error code. Those with `why` return 0, or 1 after they have written what is wrong and
 * what to do, in `room` bytes with the NUL.
 */
#ifndef LIBHVD_TRANSPORT_MPI_PLUGIN_H_
#define LIBHVD_TRANSPORT_MPI_PLUGIN_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes with every change of this file. */
#define HVD_MPI_ABI 1u

/* MPI's own handles: an operation that is under way, and a message that was found. */
typedef void* hvd_mpi_request;
typedef void* hvd_mpi_message;

typedef struct hvd_mpi_plugin {
  uint32_t abi; /* HVD_MPI_ABI, as the plugin was built with it; always first */

  /* Returns whether join() has succeeded in this process and MPI has not ended. */
  int (*started)(void);
  /* Checks what can be known without the other ranks: that MPI can be used here and, if the program
   * has started it, that this process has the same rank and number of ranks there. */
  int (*check)(int rank, int size, char* why, size_t room);
  /* Starts MPI, unless the program has; then checks the same. All ranks must call it, and MPI waits
   * for them. If it started MPI, it also ends it when the process exits with code 0. */
  int (*start)(int rank, int size, char* why, size_t room);
  /* Makes the communicator that keeps these messages apart from the program's own. All ranks must
   * call it, after start() has succeeded on all of them, and MPI waits for them. */
  int (*join)(char* why, size_t room);
  /* Reports that a rank is lost: the process will not wait for it at its end. Any thread. */
  void (*abandon)(void);
  /* Returns the first of the tags that have not been used in this process. */
  int (*first_tag)(void);
  /* Uses up `count` tags from `first` on. Returns 1 if there are not that many. */
  int (*reserve_tags)(int first, int count);
  /* Returns "Open MPI v4.1.4" or the like; valid for ever. */
  const char* (*library)(void);

  /* ---- Any number of threads may call these between join() and the end of MPI. None waits. */

  /* Begins to send. The memory must stay unchanged until test() reports that it is done. */
  int (*send)(const void* data, int bytes, int rank, int tag, hvd_mpi_request* request);
  /* Looks for the next message of a rank. If there is one, *message is not null; the caller must
   * receive it. */
  int (*find)(int rank, int tag, hvd_mpi_message* message, int* bytes);
  /* Begins to receive a message that was found, with as many bytes as find() reported. */
  int (*receive)(hvd_mpi_message message, void* data, int bytes, hvd_mpi_request* request);
  /* Sets *done to whether the operation is done; the request is then invalid. */
  int (*test)(hvd_mpi_request* request, int* done);
  /* Describes an error code. */
  void (*describe)(int error, char* text, size_t room);
} hvd_mpi_plugin;

/* The one function that the library exports. */
#define HVD_MPI_ENTRY "hvd_mpi_plugin_functions"
typedef const hvd_mpi_plugin* (*hvd_mpi_entry)(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* LIBHVD_TRANSPORT_MPI_PLUGIN_H_ */
