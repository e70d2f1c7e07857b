// A process to be looked at. `look_victim MODE [N]` prints "ready" once it does what the mode says,
// and ends with the end of its stdin.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LARGE (1 << 20)  // bytes, more than a pipe holds

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static atomic_int started;
static atomic_int released;

static void say(const char* text) {
  puts(text);
  fflush(stdout);
}

// Waits until a thread sleeps in the kernel.
static void await_sleep(pid_t tid) {
  char path[64];
  char text[512];
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
  for (;;) {
    FILE* file = fopen(path, "r");
    size_t size = file == NULL ? 0 : fread(text, 1, sizeof text - 1, file);
    if (file != NULL) fclose(file);
    text[size] = '\0';
    const char* end = strrchr(text, ')');
    if (end != NULL && end[2] == 'S') return;
    usleep(1000);
  }
}

static void* end_with_stdin(void* unused) {
  char byte;
  while (read(0, &byte, 1) > 0) {
  }
  _exit(0);
  return unused;
}

__attribute__((noinline)) void loop_in_c(void) {
  for (;;) atomic_fetch_add(&started, 1);
}

__attribute__((noinline)) void wait_for_mutex(void) {
  pthread_mutex_lock(&held);
  atomic_fetch_add(&started, 1);  // so that the call above is not the last thing
}

static void* mutex_waiter(void* tid) {
  *(atomic_int*)tid = (int)syscall(SYS_gettid);
  prctl(PR_SET_NAME, "waiter");
  wait_for_mutex();
  return NULL;
}

static void* sleeper(void* unused) {
  atomic_fetch_add(&started, 1);
  for (;;) pause();
  return unused;
}

// A process that waits for its vfork()ed child is in state D.
static int hang_in_kernel(void) {
  static int child_pid;
  const pid_t child = vfork();
  if (child == 0) {
    char text[32];
    child_pid = getpid();
    const int size = snprintf(text, sizeof text, "ready %d\n", child_pid);
    (void)!write(1, text, (size_t)size);
    for (;;) pause();
  }
  waitpid(child, NULL, 0);
  say("went on");
  return 0;
}

static int* connected_pair(void) {
  static int pair[2];
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof address;
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  bind(listener, (struct sockaddr*)&address, sizeof address);
  listen(listener, 1);
  getsockname(listener, (struct sockaddr*)&address, &size);
  pair[0] = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(pair[0], (struct sockaddr*)&address, size) != 0) perror("connect");
  pair[1] = accept(listener, NULL, NULL);
  close(listener);
  return pair;
}

// ---- Waits of many kinds that must not notice a look

struct wait {
  const char* name;
  long (*call)(int* pair);  // returns what it returned
  long expected;
  int pair[2];  // of a pipe or a socket; main writes a byte into the second to end the wait
  int is_socket;
  pthread_t thread;
  atomic_int tid;
  long result;
  int error;
};

static char buffer[LARGE];
static atomic_int word = 1;
static int semaphores;

static long in_read(int* pair) {
  char byte;
  return read(pair[0], &byte, 1);
}

static long in_write(int* pair) {
  return write(pair[1], buffer, LARGE);
}

static long in_poll(int* pair) {
  struct pollfd entry = {pair[0], POLLIN, 0};
  return poll(&entry, 1, -1);
}

static long in_poll_with_limit(int* pair) {
  struct pollfd entry = {pair[0], POLLIN, 0};
  return poll(&entry, 1, 600000);
}

static long in_select(int* pair) {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(pair[0], &set);
  return select(pair[0] + 1, &set, NULL, NULL, NULL);
}

static long in_epoll(int* pair) {
  int epoll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN};
  epoll_ctl(epoll, EPOLL_CTL_ADD, pair[0], &event);
  return epoll_wait(epoll, &event, 1, -1);
}

static long in_recv(int* pair) {
  return recv(pair[0], buffer, 1, 0);
}

static long in_recv_with_limit(int* pair) {
  struct timeval limit = {600, 0};
  char byte;
  setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  return recv(pair[0], &byte, 1, 0);
}

static long in_futex(int* pair) {
  (void)pair;
  return syscall(SYS_futex, &word, 0, 1, NULL, NULL, 0);
}

static long in_sleep(int* pair) {
  (void)pair;
  struct timespec span = {1, 0};
  return nanosleep(&span, NULL);
}

static long in_sigwait(int* pair) {
  (void)pair;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  return sigwaitinfo(&set, NULL);
}

static long in_semop(int* pair) {
  (void)pair;
  struct sembuf down = {0, -1, 0};
  return semop(semaphores, &down, 1);
}

static struct wait waits[] = {
    {.name = "read", .call = in_read, .expected = 1},
    {.name = "write", .call = in_write, .expected = LARGE},
    {.name = "poll", .call = in_poll, .expected = 1},
    {.name = "poll with a limit", .call = in_poll_with_limit, .expected = 1},
    {.name = "select", .call = in_select, .expected = 1},
    {.name = "epoll_wait", .call = in_epoll, .expected = 1},
    {.name = "recv", .call = in_recv, .expected = 1, .is_socket = 1},
    {.name = "recv with a limit", .call = in_recv_with_limit, .expected = 1, .is_socket = 1},
    {.name = "futex", .call = in_futex, .expected = 0},
    {.name = "nanosleep", .call = in_sleep, .expected = 0},
    {.name = "sigwaitinfo", .call = in_sigwait, .expected = SIGUSR2},
    {.name = "semop", .call = in_semop, .expected = 0},
};
#define WAITS (sizeof waits / sizeof waits[0])

static void* run_wait(void* argument) {
  struct wait* self = argument;
  atomic_store(&self->tid, (int)syscall(SYS_gettid));
  self->result = self->call(self->pair);
  self->error = errno;
  return NULL;
}

static void release_waits(void) {
  atomic_store(&word, 0);
  syscall(SYS_futex, &word, 1, 100, NULL, NULL, 0);
  struct sembuf up = {0, 1, 0};
  semop(semaphores, &up, 1);
  for (size_t index = 0; index < WAITS; ++index) {
    struct wait* wait = &waits[index];
    if (wait->call == in_write) {
      static char drained[LARGE];
      for (long left = LARGE; left > 0;) left -= read(wait->pair[0], drained, (size_t)left);
    } else if (wait->call == in_sigwait) {
      syscall(SYS_tgkill, getpid(), wait->tid, SIGUSR2);
    } else {
      (void)!write(wait->pair[1], "x", 1);
    }
  }
}

static int waits_unharmed(void) {
  int harmed = 0;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  semaphores = semget(IPC_PRIVATE, 1, 0600);
  for (size_t index = 0; index < WAITS; ++index) {
    struct wait* wait = &waits[index];
    if (wait->is_socket)
      memcpy(wait->pair, connected_pair(), sizeof wait->pair);
    else if (pipe(wait->pair) != 0)
      return 1;
    pthread_create(&wait->thread, NULL, run_wait, wait);
    while (atomic_load(&wait->tid) == 0) usleep(100);
    await_sleep(wait->tid);
  }
  say("ready");
  (void)getchar();
  release_waits();
  for (size_t index = 0; index < WAITS; ++index) {
    struct wait* wait = &waits[index];
    pthread_join(wait->thread, NULL);
    if (wait->result == wait->expected) continue;
    printf("%s returned %ld: %s\n", wait->name, wait->result, strerror(wait->error));
    harmed = 1;
  }
  semctl(semaphores, 0, IPC_RMID);
  say(harmed ? "harmed" : "unharmed");
  return harmed;
}

// ---- A process that adds numbers while signals arrive

static atomic_long ticks;

static void on_tick(int signal) {
  (void)signal;
  atomic_fetch_add(&ticks, 1);
}

static void* send_ticks(void* process) {
  long* sent = process;
  while (!atomic_load(&released)) {
    const long before = atomic_load(&ticks);
    kill(getpid(), SIGUSR1);
    ++*sent;
    while (atomic_load(&ticks) == before) usleep(100);  // each must arrive
  }
  return NULL;
}

static int count(void) {
  struct sigaction action = {.sa_handler = on_tick};
  sigaction(SIGUSR1, &action, NULL);
  static long sent;
  pthread_t sender;
  pthread_create(&sender, NULL, send_ticks, &sent);
  volatile unsigned long sum = 0;
  unsigned long rounds = 0;
  say("ready");
  struct pollfd input = {0, POLLIN, 0};
  while (poll(&input, 1, 0) <= 0) {
    for (unsigned long step = 0; step < 1000; ++step) sum += step;
    ++rounds;
  }
  atomic_store(&released, 1);
  pthread_join(sender, NULL);
  const int right = sum == rounds * 499500UL && atomic_load(&ticks) == sent && rounds > 0;
  printf("%lu rounds, %ld signals of %ld\n", rounds, atomic_load(&ticks), sent);
  say(right ? "unharmed" : "harmed");
  return !right;
}

// ---- A stack with a page that never comes: whoever reads it hangs until it is killed

static char* _Atomic middle;

static void* use_stack(void* tid) {
  char unused[1 << 16];
  middle = unused + sizeof unused / 2;
  *(atomic_int*)tid = (int)syscall(SYS_gettid);
  for (;;) pause();
  return middle;
}

static int with_unreadable_stack(void) {
  const size_t size = 1 << 18;
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const int writable = PROT_READ | PROT_WRITE;
  char* stack = mmap(NULL, size, writable, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  const int faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
  struct uffdio_api api = {.api = UFFD_API};
  struct uffdio_register range = {.range = {(unsigned long)stack, size},
                                  .mode = UFFDIO_REGISTER_MODE_MISSING};
  if (stack == MAP_FAILED || faults < 0 || ioctl(faults, UFFDIO_API, &api) != 0 ||
      ioctl(faults, UFFDIO_REGISTER, &range) != 0) {
    say("ready: no userfaultfd");
    return 0;
  }
  static atomic_int tid;
  pthread_t thread;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stack, size);
  pthread_create(&thread, &attributes, use_stack, &tid);
  while (tid == 0) usleep(100);
  await_sleep(tid);
  madvise((char*)((unsigned long)middle & ~(page - 1)), page, MADV_DONTNEED);
  say("ready");
  (void)getchar();
  say("went on");
  return 0;
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "";
  const int number = argc > 2 ? atoi(argv[2]) : 0;
  if (strcmp(mode, "waits") == 0) return waits_unharmed();
  if (strcmp(mode, "count") == 0) return count();
  if (strcmp(mode, "hang") == 0) return hang_in_kernel();
  if (strcmp(mode, "unreadable") == 0) return with_unreadable_stack();
  pthread_t thread;
  if (strcmp(mode, "read") != 0) pthread_create(&thread, NULL, end_with_stdin, NULL);
  if (strcmp(mode, "loop") == 0) {
    say("ready");
    loop_in_c();
  } else if (strcmp(mode, "mutex") == 0) {
    static atomic_int tid;
    pthread_mutex_lock(&held);
    pthread_create(&thread, NULL, mutex_waiter, &tid);
    while (tid == 0) usleep(100);
    await_sleep(tid);
    say("ready");
    pause();
  } else if (strcmp(mode, "read") == 0) {
    say("ready");
    char byte;
    return (int)read(0, &byte, 1);
  } else if (strcmp(mode, "socket") == 0) {
    int* pair = connected_pair();
    printf("ready %d\n", pair[0]);
    fflush(stdout);
    recv(pair[0], buffer, 1, 0);
  } else if (strcmp(mode, "child") == 0) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) pause();
    }
    printf("ready %d\n", child);
    fflush(stdout);
    waitpid(child, NULL, 0);
  } else if (strcmp(mode, "join") == 0) {
    pthread_create(&thread, NULL, sleeper, NULL);
    say("ready");
    pthread_join(thread, NULL);
  } else if (strcmp(mode, "threads") == 0) {
    for (int index = 0; index < number; ++index) pthread_create(&thread, NULL, sleeper, NULL);
    while (started < number) usleep(1000);
    say("ready");
    for (;;) pause();
  }
  return 2;
}
