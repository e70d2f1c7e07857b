/* env_dump DIR [argument…]: writes to files in DIR what this rank has inherited:
 * RANK.env (variables, each with a NUL), RANK.cwd, RANK.args (each with a NUL), RANK.cpus (a list
 * as in /proc/self/status), RANK.fds (open descriptors), RANK.signals (ignored signals). */
#include "options.h"

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

static FILE* create(const char* folder, const char* what) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%d.%s", folder, own_rank(), what);
  FILE* file = fopen(path, "w");
  if (!file) {
    perror(path);
    exit(99);
  }
  return file;
}

static void write_words(const char* folder, const char* what, char** words) {
  FILE* file = create(folder, what);
  for (; *words; words++) fwrite(*words, 1, strlen(*words) + 1, file);
  fclose(file);
}

static void write_cpus(const char* folder) {
  char line[65536];
  FILE* status = fopen("/proc/self/status", "r");
  FILE* file = create(folder, "cpus");
  while (status && fgets(line, sizeof line, status))
    if (strncmp(line, "Cpus_allowed_list:\t", 19) == 0) fputs(line + 19, file);
  if (status) fclose(status);
  fclose(file);
}

static void write_descriptors(const char* folder) {
  FILE* file = create(folder, "fds");
  DIR* open_now = opendir("/proc/self/fd");
  for (struct dirent* entry; open_now && (entry = readdir(open_now));) {
    const int fd = atoi(entry->d_name);
    if (entry->d_name[0] != '.' && fd != dirfd(open_now) && fd != fileno(file))
      fprintf(file, "%d\n", fd);
  }
  if (open_now) closedir(open_now);
  fclose(file);
}

static void write_ignored_signals(const char* folder) {
  FILE* file = create(folder, "signals");
  for (int number = 1; number < 32; number++) {
    struct sigaction action;
    if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
      fprintf(file, "%d\n", number);
  }
  fclose(file);
}

int main(int argc, char** argv, char** environment) {
  if (argc < 2) return 99;
  char cwd[4096];
  FILE* file = create(argv[1], "cwd");
  fputs(getcwd(cwd, sizeof cwd) ? cwd : "?", file);
  fclose(file);
  write_words(argv[1], "args", argv);
  write_cpus(argv[1]);
  write_descriptors(argv[1]);
  write_ignored_signals(argv[1]);
  write_words(argv[1], "env", environment);
  return 0;
}
