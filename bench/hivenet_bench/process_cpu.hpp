// CPU time that processes have used, from the kernel's own books.
//
// Linux only. Any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string_view>

#include "base/status.hpp"

namespace hive::bench {

// User and system time of a whole process in clock ticks (sysconf(_SC_CLK_TCK) a second) out of the text of
// /proc/PID/stat: fields 14 and 15 of proc(5), which cover all its threads, ended ones too, but not its children.
// errc::corrupt when the text has another form.
result<uint64_t> cpu_ticks(std::string_view stat);

// The same of a process that runs now, in microseconds; one tick (10 ms) is the finest step.
// errc::not_found when there is no such process.
result<uint64_t> process_cpu_us(pid_t pid);

}  // namespace hive::bench
