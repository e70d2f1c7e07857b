/* Reads the command lines of the test programs: "--name value" and "--name". */
#ifndef HVD_TESTS_OPTIONS_H_
#define HVD_TESTS_OPTIONS_H_

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the word after `name`, or `fallback` without one. Ignores words after "--". */
static inline const char* option(char** argv, const char* name, const char* fallback) {
  for (char** word = argv + 1; *word && strcmp(*word, "--") != 0; word++)
    if (strcmp(*word, name) == 0 && word[1]) return word[1];
  return fallback;
}

static inline long number(char** argv, const char* name, long fallback) {
  const char* text = option(argv, name, NULL);
  return text ? strtol(text, NULL, 10) : fallback;
}

static inline int flag(char** argv, const char* name) {
  for (char** word = argv + 1; *word && strcmp(*word, "--") != 0; word++)
    if (strcmp(*word, name) == 0) return 1;
  return 0;
}

/* Returns this process's rank; 0 outside hvdrun. */
static inline int own_rank(void) {
  const char* text = getenv("HVD_RANK");
  return text ? atoi(text) : 0;
}

/* Appends one line to a file to which several processes append. */
static inline void append_line(const char* path, const char* word, long value) {
  FILE* file = fopen(path, "a");
  if (!file) {
    perror(path);
    exit(99);
  }
  fprintf(file, "%s %ld\n", word, value); /* one short write, so that lines do not mix */
  fclose(file);
}

#endif /* HVD_TESTS_OPTIONS_H_ */
