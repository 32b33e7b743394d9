// A strategy that leaves behind what third parties' do: a count of its lives that all its versions share where the compiler marks it
// unique, a thread_local with a destructor, and a thread that nobody joins. It speaks on stderr; the thread echoes what it is sent.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "bad.h"

inline int &lives() {
  static int n = 0;
  return n;
}

struct farewell {
  ~farewell() { dprintf(STDERR_FILENO, "farewell\n"); }
};

static void remember() {
  static thread_local farewell one;
  (void)one;
}

static void echo(int fd) {
  char c = 0;
  while (read(fd, &c, 1) == 1) {
    if (write(fd, &c, 1) != 1) return;
  }
}

static hive_status create(const hive_host *, const hive_config *config, const hive_error_sink *, void **self) noexcept {
  static int one;
  *self = &one;
  const std::string json(config->json.ptr, config->json.len);
  const std::string fd = "\"fd\":";
  dprintf(STDERR_FILENO, "life %d\n", ++lives());
  if (json.find("true") != std::string::npos) remember();
  std::thread(echo, std::atoi(json.c_str() + json.find(fd) + fd.size())).detach();
  return HIVE_OK;
}

#define LINGERING_SCHEMA HIVE_STR("{\"type\":\"object\",\"properties\":{\"fd\":{\"type\":\"integer\"},\"remembers\":{\"type\":\"boolean\"}}}")
ONE_COMPONENT(STRATEGY(HIVE_STR("lingering"), LINGERING_SCHEMA, create, &bad_calls))
