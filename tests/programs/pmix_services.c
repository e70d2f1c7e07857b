/* Uses the services of a PMIx server beside the exchange of data. Each rank does the same:
 *
 *   pmix_services [--spawn] [--log TEXT] [--cleanup FILE]
 *
 * publishes a value and looks up that of the next rank; publishes one that is read once; connects
 * all ranks and disconnects them; asks for namespaces; makes two groups with numbers of their own.
 * --cleanup: FILE is removed when rank 0 ends. --log: rank 0 logs the text. --spawn: expects that a
 * spawn is refused. Rank 0 prints "the groups' numbers differ". Exit code 98 and a line after a
 * result that it does not expect. */
#include "options.h"

#include <pmix.h>

static pmix_proc_t self;

static void expect(pmix_status_t wanted, pmix_status_t status, const char* call) {
  if (status == wanted) return;
  fprintf(stderr, "rank %u: %s: %s, not %s\n", self.rank, call, PMIx_Error_string(status),
          PMIx_Error_string(wanted));
  exit(98);
}

static void must(pmix_status_t status, const char* call) {
  expect(PMIX_SUCCESS, status, call);
}

static unsigned job_size(void) {
  pmix_proc_t job;
  pmix_value_t* value = NULL;
  PMIX_LOAD_PROCID(&job, self.nspace, PMIX_RANK_WILDCARD);
  must(PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &value), "PMIx_Get");
  const unsigned size = value->data.uint32;
  PMIX_VALUE_RELEASE(value);
  return size;
}

static void publish(const char* key, const char* text, pmix_persistence_t persistence) {
  pmix_info_t info[2];
  PMIX_INFO_LOAD(&info[0], key, text, PMIX_STRING);
  PMIX_INFO_LOAD(&info[1], PMIX_PERSISTENCE, &persistence, PMIX_PERSIST);
  must(PMIx_Publish(info, 2), "PMIx_Publish");
}

/* Waits for the value of a key, at most `seconds`. */
static pmix_status_t look_up(const char* key, pmix_pdata_t* found, int seconds) {
  pmix_info_t info[2];
  const int all = 0;
  PMIX_INFO_LOAD(&info[0], PMIX_WAIT, &all, PMIX_INT);
  PMIX_INFO_LOAD(&info[1], PMIX_TIMEOUT, &seconds, PMIX_INT);
  PMIX_PDATA_CONSTRUCT(found);
  strncpy(found->key, key, PMIX_MAX_KEYLEN);
  return PMIx_Lookup(found, 1, info, 2);
}

static void use_names(unsigned size) {
  char key[64], text[64];
  pmix_pdata_t found;
  snprintf(key, sizeof key, "name-%u", self.rank);
  snprintf(text, sizeof text, "of rank %u", self.rank);
  publish(key, text, PMIX_PERSIST_APP);

  const unsigned next = (self.rank + 1) % size;
  snprintf(key, sizeof key, "name-%u", next);
  snprintf(text, sizeof text, "of rank %u", next);
  must(look_up(key, &found, 0), "PMIx_Lookup");
  if (found.proc.rank != next || strcmp(found.value.data.string, text) != 0) {
    fprintf(stderr, "rank %u: %s is %s of rank %u\n", self.rank, key, found.value.data.string,
            found.proc.rank);
    exit(98);
  }

  snprintf(key, sizeof key, "once-%u", self.rank);
  publish(key, "x", PMIX_PERSIST_FIRST_READ);
  must(look_up(key, &found, 0), "PMIx_Lookup of a value that is read once");
  PMIX_PDATA_CONSTRUCT(&found);
  strncpy(found.key, key, PMIX_MAX_KEYLEN);
  expect(PMIX_ERR_NOT_FOUND, PMIx_Lookup(&found, 1, NULL, 0), "PMIx_Lookup after the first");
  expect(PMIX_ERR_TIMEOUT, look_up("missing", &found, 1), "PMIx_Lookup with a limit of 1 s");

  must(PMIx_Fence(NULL, 0, NULL, 0), "PMIx_Fence");
  pmix_info_t again;
  snprintf(key, sizeof key, "name-%u", self.rank);
  PMIX_INFO_LOAD(&again, key, "y", PMIX_STRING);
  expect(PMIX_ERR_DUPLICATE_KEY, PMIx_Publish(&again, 1), "PMIx_Publish, the second");
  char* keys[] = {key, NULL};
  must(PMIx_Unpublish(keys, NULL, 0), "PMIx_Unpublish");
  must(PMIx_Publish(&again, 1), "PMIx_Publish after PMIx_Unpublish");
}

/* Makes a group of all ranks. Returns its number. */
static size_t make_group(const char* name, const pmix_proc_t* all, unsigned size) {
  pmix_info_t wish;
  pmix_info_t* results = NULL;
  size_t count = 0, number = 0;
  const bool yes = true;
  PMIX_INFO_LOAD(&wish, PMIX_GROUP_ASSIGN_CONTEXT_ID, &yes, PMIX_BOOL);
  must(PMIx_Group_construct(name, all, size, &wish, 1, &results, &count), "PMIx_Group_construct");
  for (size_t i = 0; i < count; i++)
    if (PMIX_CHECK_KEY(&results[i], PMIX_GROUP_CONTEXT_ID)) number = results[i].value.data.size;
  return number;
}

/* Fails unless all ranks have the same number: each publishes a name with its own. */
static void expect_the_same(size_t number, unsigned size) {
  char key[64];
  snprintf(key, sizeof key, "group-%zu-%u", number, self.rank);
  publish(key, "x", PMIX_PERSIST_APP);
  for (unsigned rank = 0; rank < size; rank++) {
    pmix_pdata_t found;
    snprintf(key, sizeof key, "group-%zu-%u", number, rank);
    must(look_up(key, &found, 20), "PMIx_Lookup of a group's number");
  }
}

static void use_groups(unsigned size) {
  pmix_proc_t* all = malloc(size * sizeof *all);
  for (unsigned rank = 0; rank < size; rank++) PMIX_LOAD_PROCID(&all[rank], self.nspace, rank);
  must(PMIx_Connect(all, size, NULL, 0), "PMIx_Connect");
  must(PMIx_Disconnect(all, size, NULL, 0), "PMIx_Disconnect");
  const size_t first = make_group("first", all, size);
  const size_t second = make_group("second", all, size);
  expect_the_same(first, size);
  expect_the_same(second, size);
  must(PMIx_Group_destruct("first", NULL, 0), "PMIx_Group_destruct");
  if (self.rank == 0 && first != 0 && first != second) puts("the groups' numbers differ");
  free(all);
}

/* Asks for namespaces, and for a key that no server knows. */
static void ask_server(void) {
  char* known[] = {PMIX_QUERY_NAMESPACES, PMIX_QUERY_SUPPORTED_KEYS, NULL};
  char* both[] = {PMIX_QUERY_NAMESPACES, "pmix.qry.unknown", NULL};
  char* unknown[] = {"pmix.qry.unknown", NULL};
  pmix_query_t query;
  pmix_info_t* found = NULL;
  size_t count = 0;
  PMIX_QUERY_CONSTRUCT(&query);
  query.keys = known;
  must(PMIx_Query_info(&query, 1, &found, &count), "PMIx_Query_info");
  if (count != 2 || strcmp(found[0].value.data.string, self.nspace) != 0 ||
      strstr(found[1].value.data.string, PMIX_QUERY_NAMESPACES) == NULL) {
    fprintf(stderr, "rank %u: a query has another answer\n", self.rank);
    exit(98);
  }
  query.keys = both;
  expect(PMIX_QUERY_PARTIAL_SUCCESS, PMIx_Query_info(&query, 1, &found, &count),
         "PMIx_Query_info for two keys");
  query.keys = unknown;
  expect(PMIX_ERR_NOT_SUPPORTED, PMIx_Query_info(&query, 1, &found, &count),
         "PMIx_Query_info for an unknown key");
}

static void register_cleanup(const char* path) {
  pmix_info_t wish;
  pmix_info_t* results = NULL;
  size_t count = 0;
  PMIX_INFO_LOAD(&wish, PMIX_REGISTER_CLEANUP, path, PMIX_STRING);
  must(PMIx_Job_control(&self, 1, &wish, 1, &results, &count), "PMIx_Job_control");
}

static void log_text(const char* text) {
  pmix_info_t info;
  PMIX_INFO_LOAD(&info, PMIX_LOG_STDERR, text, PMIX_STRING);
  must(PMIx_Log(&info, 1, NULL, 0), "PMIx_Log");
}

static void expect_no_spawn(void) {
  pmix_app_t app;
  pmix_nspace_t child;
  PMIX_APP_CONSTRUCT(&app);
  app.cmd = strdup("/bin/true");
  app.maxprocs = 1;
  expect(PMIX_ERR_NOT_SUPPORTED, PMIx_Spawn(NULL, 0, &app, 1, child), "PMIx_Spawn");
}

int main(int argc, char** argv) {
  (void)argc;
  must(PMIx_Init(&self, NULL, 0), "PMIx_Init");
  const unsigned size = job_size();
  const char* file = option(argv, "--cleanup", NULL);
  if (file != NULL && self.rank == 0) register_cleanup(file);
  const char* text = option(argv, "--log", NULL);
  if (text != NULL && self.rank == 0) log_text(text);
  if (flag(argv, "--spawn")) expect_no_spawn();
  ask_server();
  use_names(size);
  use_groups(size);
  must(PMIx_Fence(NULL, 0, NULL, 0), "the last PMIx_Fence");
  must(PMIx_Finalize(NULL, 0), "PMIx_Finalize");
  return 0;
}
