#include <unistd.h>

#include "bad.h"
__attribute__((constructor)) static void hang(void) {
  for (;;) pause();
}
GOOD
