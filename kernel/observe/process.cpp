#include "observe/process.hpp"

#include <dirent.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <vector>

#include "base/text.hpp"

namespace hive::observe {
namespace {

std::string slurp(const std::string &file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::optional<double> number(std::string_view text) {
  double value = 0;
  text = trim(text);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The words of /proc/self/stat behind the program's name, which may hold blanks and brackets; word 0 is the state.
std::vector<std::string> stat_words(const std::string &proc) {
  const std::string text = slurp(proc + "/stat");
  const size_t close = text.rfind(')');
  return close == std::string::npos ? std::vector<std::string>() : split_trimmed(std::string_view(text).substr(close + 1), ' ');
}

std::optional<double> limit(const std::string &proc, std::string_view name) {
  std::istringstream lines(slurp(proc + "/limits"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name)) continue;
    const auto words = split_trimmed(std::string_view(line).substr(name.size()), ' ');
    if (words.empty()) return std::nullopt;
    if (words[0] == "unlimited") return -1;
    return number(words[0]);
  }
  return std::nullopt;
}

std::optional<double> open_files(const std::string &proc) {
  DIR *const folder = opendir((proc + "/fd").c_str());
  if (folder == nullptr) return std::nullopt;
  double count = 0;
  while (const dirent *entry = readdir(folder)) count += entry->d_name[0] != '.';
  closedir(folder);
  return count - 1;  // not the one that reads
}

std::optional<double> boot_time() {
  std::istringstream lines(slurp("/proc/stat"));
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("btime ")) return number(std::string_view(line).substr(6));
  return std::nullopt;
}

// Received and sent over all interfaces but the loopback.
std::optional<std::pair<double, double>> traffic(const std::string &proc) {
  std::istringstream lines(slurp(proc + "/net/dev"));
  std::pair<double, double> total;
  bool any = false;
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    any = true;
    if (trim(std::string_view(line).substr(0, colon)) == "lo") continue;
    const auto words = split_trimmed(std::string_view(line).substr(colon + 1), ' ');
    if (words.size() < 9) continue;
    total.first += number(words[0]).value_or(0);
    total.second += number(words[8]).value_or(0);
  }
  return any ? std::optional(total) : std::nullopt;
}

}  // namespace

void process_metrics::collect(exposition &out) {
  const auto one = [&](metric_kind kind, const char *name, const char *help, std::optional<double> value) {
    if (value && out.family(kind, name, help)) out.series({}, *value);
  };
  const auto words = stat_words(proc_);
  const auto word = [&](size_t field) -> std::optional<double> {  // numbered as proc(5) does, the state being 3
    return field - 3 < words.size() ? number(words[field - 3]) : std::nullopt;
  };
  const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  const double page = static_cast<double>(sysconf(_SC_PAGESIZE));
  const auto user = word(14), kernel = word(15), start = word(22), virtual_size = word(23), resident = word(24);

  using enum metric_kind;
  if (user && kernel) one(counter, "process_cpu_seconds_total", "User and system CPU time in seconds.", (*user + *kernel) / ticks);
  one(gauge, "process_virtual_memory_bytes", "Virtual memory size.", virtual_size);
  if (resident) one(gauge, "process_resident_memory_bytes", "Resident memory size.", *resident * page);
  one(gauge, "process_virtual_memory_max_bytes", "Limit of the virtual memory; -1 = none.", limit(proc_, "Max address space"));
  one(gauge, "process_open_fds", "Open file descriptors.", open_files(proc_));
  one(gauge, "process_max_fds", "Limit of the open file descriptors.", limit(proc_, "Max open files"));
  if (const auto boot = boot_time(); start && boot)
    one(gauge, "process_start_time_seconds", "Start of the process, seconds since 1970.", *boot + *start / ticks);
  if (const auto bytes = traffic(proc_)) {
    one(counter, "process_network_receive_bytes_total", "Bytes received over the network.", bytes->first);
    one(counter, "process_network_transmit_bytes_total", "Bytes sent over the network.", bytes->second);
  }
  if (out.family(gauge, "build_info", "What this program was built from; always 1."))
    out.series(label_text({"version", "commit", "compiler", "plugin_abi"},
                          {facts_.version, facts_.commit, facts_.compiler, facts_.plugin_abi}), uint64_t{1});
}

}  // namespace hive::observe
