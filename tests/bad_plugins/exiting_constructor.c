#include <unistd.h>

#include "bad.h"
__attribute__((constructor)) static void leave(void) { _exit(0); }
GOOD
