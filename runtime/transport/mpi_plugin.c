/* libhvd_mpi.so: implements transport/mpi_plugin.h with Open MPI. */
#include "transport/mpi_plugin.h"

#include <dlfcn.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef OPEN_MPI
#error "libhvd_mpi.so is for Open MPI: its handles are pointers"
#endif

/* The plugin's own communicator; null before join(). */
static MPI_Comm ours = MPI_COMM_NULL;
static int next_tag = 0;
static int most_tag = 32767; /* the least that MPI guarantees */
/* The process in which this plugin started MPI; 0: none. Its forked children must not end MPI. */
static pid_t starter = 0;
static atomic_int abandoned = 0;

static int asked(int (*question)(int*)) {
  int yes = 0;
  question(&yes);
  return yes;
}

/* Returns "Open MPI v4.1.4", the text before the first comma. It may be called at any time
 * (MPI 3.1, section 8.1.1). */
static const char* library(void) {
  static char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  if (text[0] == '\0') MPI_Get_library_version(text, &length);
  char* const end = strchr(text, ',');
  if (end) *end = '\0';
  return text;
}

#define HOW_TO_START \
  "Start them with hvdrun (not with --pmix off), mpirun of Open MPI or srun --mpi=pmix"

/* Checks for a launcher that Open MPI knows. Without one it would start all the same, alone. */
static int check_launcher(int size, char* why, size_t room) {
  static const char* const signs[] = {"PMIX_NAMESPACE", "PMI_FD", "PMI_RANK", "PMI2_RANK"};
  for (size_t i = 0; i < sizeof signs / sizeof signs[0]; ++i)
    if (size == 1 || getenv(signs[i])) return 0;
  snprintf(why, room, "MPI would not find the other ranks, as it does so through PMIx. %s",
           HOW_TO_START);
  return 1;
}

/* Open MPI 5 takes its own rank from PMIx_Init, which it does not call if PMIx is open. */
static int check_pmix(char* why, size_t room) {
  void* const found = dlsym(RTLD_DEFAULT, "PMIx_Initialized");
  int (*is_open)(void) = NULL;
  memcpy(&is_open, &found, sizeof found);
  if (OMPI_MAJOR_VERSION < 5 || is_open == NULL || !is_open()) return 0;
  snprintf(
      why, room,
      "Open MPI 5 cannot start after libhvd has opened PMIx. Start the program with hvdrun, or "
      "let it call MPI_Init_thread with MPI_THREAD_MULTIPLE before hvd_init");
  return 1;
}

static int check_numbers(int rank, int size, char* why, size_t room) {
  int mpi_rank = 0;
  int mpi_size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &mpi_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &mpi_size);
  if (mpi_rank == rank && mpi_size == size) return 0;
  snprintf(why, room, "to MPI this process is rank %d of %d, to libhvd rank %d of %d. %s", mpi_rank,
           mpi_size, rank, size, HOW_TO_START);
  return 1;
}

static int check_threads(int level, const char* what_to_do, char* why, size_t room) {
  if (level >= MPI_THREAD_MULTIPLE) return 0;
  snprintf(why, room,
           "libhvd sends from several threads, and MPI was started without MPI_THREAD_MULTIPLE: %s",
           what_to_do);
  return 1;
}

static int check(int rank, int size, char* why, size_t room) {
  if (strncmp(library(), "Open MPI", strlen("Open MPI")) != 0) {
    snprintf(why, room,
             "the program has brought another MPI than Open MPI with it (%s), and there can be one "
             "only",
             library());
    return 1;
  }
  if (asked(MPI_Finalized)) {
    snprintf(why, room,
             "MPI has been finalized in this process and cannot start again: call hvd_init before "
             "MPI_Finalize");
    return 1;
  }
  if (!asked(MPI_Initialized)) return check_launcher(size, why, room) || check_pmix(why, room);
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  return check_threads(level,
                       "let the program call MPI_Init_thread with that level, or hvd_init before "
                       "MPI_Init, or set OMPI_MPI_THREAD_LEVEL=3",
                       why, room) ||
         check_numbers(rank, size, why, room);
}

/* Calls MPI_Finalize, which waits for all ranks, only if the exit code is 0. With another exit code
 * the launcher ends the ranks, and should see which one failed first. */
static void finalize_at_exit(int code, void* unused) {
  (void)unused;
  if (code != 0 || abandoned || getpid() != starter || asked(MPI_Finalized)) return;
  MPI_Finalize();
}

static int start_here(char* why, size_t room) {
  int level = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) {
    snprintf(why, room, "MPI_Init_thread has failed");
    return 1;
  }
  starter = getpid();
  on_exit(finalize_at_exit, NULL);
  return check_threads(level, "this Open MPI was built without it", why, room);
}

static int start(int rank, int size, char* why, size_t room) {
  if (!asked(MPI_Initialized) && start_here(why, room)) return 1;
  if (check_numbers(rank, size, why, room) == 0) return 0;
  /* A process that is alone in MPI waits for no other when it ends MPI again. */
  int mpi_size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &mpi_size);
  if (starter != 0 && mpi_size == 1) MPI_Finalize();
  return 1;
}

static int join(char* why, size_t room) {
  if (ours != MPI_COMM_NULL) return 0;
  MPI_Comm made = MPI_COMM_NULL;
  if (MPI_Comm_dup(MPI_COMM_WORLD, &made) != MPI_SUCCESS ||
      MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN) != MPI_SUCCESS) {
    snprintf(why, room, "MPI_Comm_dup has failed");
    return 1;
  }
  int* limit = NULL;
  int known = 0;
  if (MPI_Comm_get_attr(made, MPI_TAG_UB, &limit, &known) == MPI_SUCCESS && known)
    most_tag = *limit;
  ours = made;
  return 0;
}

static int started(void) {
  return ours != MPI_COMM_NULL && !asked(MPI_Finalized);
}

static void abandon(void) {
  abandoned = 1;
}

static int first_tag(void) {
  return next_tag;
}

static int reserve_tags(int first, int count) {
  if (count > most_tag - first) return 1;
  next_tag = first + count;
  return 0;
}

static int send_bytes(const void* data, int bytes, int rank, int tag, hvd_mpi_request* request) {
  MPI_Request made = MPI_REQUEST_NULL;
  const int error = MPI_Isend(data, bytes, MPI_BYTE, rank, tag, ours, &made);
  *request = made;
  return error;
}

static int find_message(int rank, int tag, hvd_mpi_message* message, int* bytes) {
  int there = 0;
  MPI_Message found = MPI_MESSAGE_NULL;
  MPI_Status status;
  *message = NULL;
  int error = MPI_Improbe(rank, tag, ours, &there, &found, &status);
  if (error != MPI_SUCCESS || !there) return error;
  error = MPI_Get_count(&status, MPI_BYTE, bytes);
  *message = found;
  return error;
}

static int receive_message(hvd_mpi_message message, void* data, int bytes,
                           hvd_mpi_request* request) {
  MPI_Message taken = message;
  MPI_Request made = MPI_REQUEST_NULL;
  const int error = MPI_Imrecv(data, bytes, MPI_BYTE, &taken, &made);
  *request = made;
  return error;
}

static int test(hvd_mpi_request* request, int* done) {
  MPI_Request tested = *request;
  const int error = MPI_Test(&tested, done, MPI_STATUS_IGNORE);
  *request = tested;
  return error;
}

static void describe(int error, char* text, size_t room) {
  char message[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (MPI_Error_string(error, message, &length) != MPI_SUCCESS)
    snprintf(message, sizeof message, "error %d", error);
  snprintf(text, room, "%s", message);
}

__attribute__((visibility("default"))) const hvd_mpi_plugin* hvd_mpi_plugin_functions(void);

const hvd_mpi_plugin* hvd_mpi_plugin_functions(void) {
  static const hvd_mpi_plugin functions = {
      .abi = HVD_MPI_ABI,
      .started = started,
      .check = check,
      .start = start,
      .join = join,
      .abandon = abandon,
      .first_tag = first_tag,
      .reserve_tags = reserve_tags,
      .library = library,
      .send = send_bytes,
      .find = find_message,
      .receive = receive_message,
      .test = test,
      .describe = describe,
  };
  return &functions;
}
