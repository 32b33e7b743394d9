#include "plugins/probe.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>

#include "base/clock.hpp"
#include "base/text.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HIVE_ADDRESS_SPACE_IS_SHADOWED 1
#endif

namespace hive::plugins {
namespace {

constexpr size_t output_limit = 1 << 20;
constexpr int library_fd = 3;

void limit(int what, rlim_t soft, rlim_t hard) {
  const rlimit r{soft, hard};
  setrlimit(what, &r);
}

// Runs in the child between fork and exec: system calls only.
[[noreturn]] void become_probe(const char *const *argv, char *const *environment, int library, int out, int err, const settings &s) {
  const int held = fcntl(library, F_DUPFD, 10), o = fcntl(out, F_DUPFD, 10), e = fcntl(err, F_DUPFD, 10);
  const int null = open("/dev/null", O_RDONLY);
  if (held < 0 || o < 0 || e < 0 || null < 0) _exit(127);
  dup2(null, 0);
  dup2(o, 1);
  dup2(e, 2);
  dup2(held, library_fd);
  close_range(library_fd + 1, ~0u, 0);
  const auto seconds = static_cast<rlim_t>(s.probe_timeout.count() / 1000 + 1);
  limit(RLIMIT_CPU, seconds, seconds + 1);
  limit(RLIMIT_CORE, 0, 0);
#ifndef __SANITIZE_THREAD__
  limit(RLIMIT_FSIZE, 0, 0);  // the thread sanitizer keeps its records in a file
#endif
  limit(RLIMIT_NOFILE, 64, 64);
#ifndef HIVE_ADDRESS_SPACE_IS_SHADOWED
  limit(RLIMIT_AS, s.probe_memory, s.probe_memory);
#endif
  signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  setsid();
  execve(argv[0], const_cast<char *const *>(argv), environment);
  _exit(127);
}

struct pipe_pair {
  int read = -1, write = -1;
  bool make() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    read = ends[0];
    write = ends[1];
    return true;
  }
  void close_write() {
    if (write >= 0) close(write);
    write = -1;
  }
  ~pipe_pair() {
    close_write();
    if (read >= 0) close(read);
  }
};

// False at the end of the stream.
bool drain(int fd, std::string &into) {
  std::array<char, 8192> buffer;
  const ssize_t n = read(fd, buffer.data(), buffer.size());
  if (n < 0 && errno == EINTR) return true;
  if (n <= 0) return false;
  if (into.size() < output_limit) into.append(buffer.data(), static_cast<size_t>(n));
  return true;
}

}  // namespace

std::string default_probe_program() {
  std::error_code ec;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", ec);
  return ec ? std::string() : (self.parent_path() / "hive-plugin-check").string();
}

result<std::string> probe(int fd, const settings &s) {
  const std::string program = s.probe_program.empty() ? default_probe_program() : s.probe_program;
  if (access(program.c_str(), X_OK) != 0) {
    return fail(errc::unavailable, "cannot be probed, there is no program " + program +
                                       "; install it, pin the library by its sha256, or put it in a packaged directory");
  }
  pipe_pair out, err;
  if (!out.make() || !err.make()) return fail(errc::exhausted, std::string("cannot be probed: ") + std::strerror(errno));
  const std::array<const char *, 4> argv{program.c_str(), "--describe", "/proc/self/fd/3", nullptr};
  // Nothing of our environment: it may hold secrets.
  const std::array<char *, 1> environment{nullptr};
  const pid_t child = fork();
  if (child < 0) return fail(errc::exhausted, std::string("cannot be probed: ") + std::strerror(errno));
  if (child == 0) become_probe(argv.data(), environment.data(), fd, out.write, err.write, s);
  out.close_write();
  err.close_write();

  std::string description, words;
  const uint64_t deadline = now_ns() + static_cast<uint64_t>(s.probe_timeout.count()) * ns_per_ms;
  bool late = false;
  pollfd watched[2] = {{out.read, POLLIN, 0}, {err.read, POLLIN, 0}};
  while (watched[0].fd >= 0 || watched[1].fd >= 0) {
    const uint64_t now = now_ns();
    late = now >= deadline;
    if (late) break;
    const int n = poll(watched, 2, static_cast<int>((deadline - now) / ns_per_ms + 1));
    if (n < 0 && errno != EINTR) break;
    if (n <= 0) continue;
    if (watched[0].revents != 0 && !drain(out.read, description)) watched[0].fd = -1;
    if (watched[1].revents != 0 && !drain(err.read, words)) watched[1].fd = -1;
  }
  if (late) kill(-child, SIGKILL), kill(child, SIGKILL);
  int state = 0;
  while (waitpid(child, &state, 0) < 0 && errno == EINTR) {
  }
  if (late || (WIFSIGNALED(state) && WTERMSIG(state) == SIGXCPU)) {
    return fail(errc::timeout, "hung while it was loaded in a probe process (more than " + std::to_string(s.probe_timeout.count()) + " ms)");
  }
  if (WIFSIGNALED(state)) {
    return fail(errc::corrupt, std::string("crashed while it was loaded in a probe process: ") + strsignal(WTERMSIG(state)));
  }
  if (WEXITSTATUS(state) == 127) return fail(errc::unavailable, "cannot be probed, " + program + " does not run");
  if (WEXITSTATUS(state) == 1) return fail(errc::invalid, std::string(trim(words)));
  if (WEXITSTATUS(state) != 0) {
    return fail(errc::corrupt, "ended its probe process with exit code " + std::to_string(WEXITSTATUS(state)) +
                                   (words.empty() ? std::string() : ": " + std::string(trim(words.substr(0, 500)))));
  }
  if (description.empty()) return fail(errc::corrupt, "ended its probe process while it was loaded, before it could be described");
  return description;
}

}  // namespace hive::plugins
