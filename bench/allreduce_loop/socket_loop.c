/* Measures the lower limit between two hosts: two processes send each other the whole buffer over
 * one TCP connection, and add the received one. Both poll without sleeping, and check nothing. For
 * large buffers this is no limit, because both processes add every element.
 * socket_loop RANK ADDRESS PORT BYTES…; rank 0 listens at the address. */
#include "loop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

static int rank;
static int peer;
static char* received;

static void fail(const char* what) {
  perror(what);
  exit(1);
}

static void exchange(const char* data, size_t bytes) {
  size_t sent = 0;
  size_t taken = 0;
  while (sent < bytes || taken < bytes) {
    if (sent < bytes) {
      const ssize_t count = send(peer, data + sent, bytes - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (count < 0 && errno != EAGAIN) fail("send");
      if (count > 0) sent += (size_t)count;
    }
    if (taken < bytes) {
      const ssize_t count = recv(peer, received + taken, bytes - taken, MSG_DONTWAIT);
      if (count == 0 || (count < 0 && errno != EAGAIN)) fail("recv");
      if (count > 0) taken += (size_t)count;
    }
  }
}

static void allreduce(float* buffer, size_t count) {
  exchange((const char*)buffer, count * sizeof(float));
  const float* const other = (const float*)(const void*)received;
  for (size_t i = 0; i < count; ++i) buffer[i] += other[i];
}

static void barrier(void) {
  const char byte = 0;
  exchange(&byte, 1);
}

static float* allocate(size_t bytes) {
  const size_t room = (bytes + 63) / 64 * 64;
  free(received);
  received = aligned_alloc(64, room);
  return aligned_alloc(64, room);
}

static int listen_and_accept(const struct sockaddr_in* address) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(listener, (const struct sockaddr*)address, sizeof *address) != 0) fail("bind");
  if (listen(listener, 1) != 0) fail("listen");
  const int accepted = accept(listener, NULL, NULL);
  if (accepted < 0) fail("accept");
  return accepted;
}

/* Tries to connect until rank 0 listens. */
static int connect_to(const struct sockaddr_in* address) {
  while (1) {
    const int one = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(one, (const struct sockaddr*)address, sizeof *address) == 0) return one;
    if (errno != ECONNREFUSED) fail("connect");
    close(one);
    usleep(10000);
  }
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  rank = atoi(argv[1]);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[3]))};
  if (inet_pton(AF_INET, argv[2], &address.sin_addr) != 1) return 2;
  peer = rank == 0 ? listen_and_accept(&address) : connect_to(&address);
  const int on = 1;
  setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  received = malloc(64);
  const bench_system system = {rank, allreduce, barrier, allocate};
  bench_run(&system, 4, argc, argv);
  return 0;
}
