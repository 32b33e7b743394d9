#include "observe/log.hpp"

#include <spdlog/formatter.h>

#include <array>
#include <chrono>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "observe/stderr_sink.hpp"

namespace hive::observe {
namespace {

using spdlog::memory_buf_t;

constexpr std::array<std::string_view, 12> subsystems = {"router", "agent",  "api",     "auth",   "link",  "hardware",
                                                         "metrics", "policy", "provider", "storage", "plugin", "kernel"};

constexpr std::pair<std::string_view, spdlog::level::level_enum> levels[] = {
    {"trace", spdlog::level::trace},   {"debug", spdlog::level::debug},     {"info", spdlog::level::info},
    {"warn", spdlog::level::warn},     {"warning", spdlog::level::warn},    {"error", spdlog::level::err},
    {"dpanic", spdlog::level::critical}, {"panic", spdlog::level::critical}, {"fatal", spdlog::level::critical}};

std::string_view level_name(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::trace: return "trace";
    case spdlog::level::debug: return "debug";
    case spdlog::level::info: return "info";
    case spdlog::level::warn: return "warn";
    case spdlog::level::err: return "error";
    default: return "fatal";
  }
}

std::string_view real_name(std::string_view subsystem) {
  return subsystem == "grpc" || subsystem == "p2p" ? std::string_view("link") : subsystem;
}

void append(memory_buf_t &out, std::string_view text) { out.append(text.data(), text.data() + text.size()); }

// Control characters never reach the terminal or forge a second line.
void append_escaped(memory_buf_t &out, std::string_view text, bool json) {
  static constexpr char hex[] = "0123456789abcdef";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') append(out, "\\n");
    else if (c == '\r') append(out, "\\r");
    else if (c == '\t' && json) append(out, "\\t");
    else if (json && (c == '"' || c == '\\')) { out.push_back('\\'); out.push_back(c); }
    else if ((byte < 0x20 && c != '\t') || byte == 0x7f) {
      append(out, "\\u00");
      out.push_back(hex[byte >> 4]);
      out.push_back(hex[byte & 15]);
    } else out.push_back(c);
  }
}

class line_formatter final : public spdlog::formatter {
 public:
  line_formatter(bool json, std::string peer_id) : json_(json), peer_id_(std::move(peer_id)) {}

  void format(const spdlog::details::log_msg &message, memory_buf_t &out) override {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(message.time.time_since_epoch()).count();
    const std::string time = rfc3339_ms(static_cast<uint64_t>(ms));
    const std::string_view name(message.logger_name.data(), message.logger_name.size());
    const std::string_view text(message.payload.data(), message.payload.size());
    if (json_) {
      append(out, R"({"level":")");
      append(out, level_name(message.level));
      append(out, R"(","ts":")");
      append(out, time);
      append(out, R"(","logger":")");
      append_escaped(out, name, true);
      append(out, R"(","msg":")");
      append_escaped(out, text, true);
      if (!peer_id_.empty()) {
        append(out, R"(","peer_id":")");
        append_escaped(out, peer_id_, true);
      }
      append(out, "\"}\n");
      return;
    }
    append(out, time);
    out.push_back(' ');
    message.color_range_start = out.size();
    append(out, level_name(message.level));
    message.color_range_end = out.size();
    out.push_back(' ');
    append_escaped(out, name, false);
    out.push_back(' ');
    append_escaped(out, text, false);
    if (!peer_id_.empty()) {
      append(out, " peer_id=");
      append_escaped(out, peer_id_, false);
    }
    out.push_back('\n');
  }

  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<line_formatter>(json_, peer_id_); }

 private:
  bool json_;
  std::string peer_id_;
};

using level_map = std::map<std::string, spdlog::level::level_enum, std::less<>>;

struct state {
  std::mutex mutex;  // guards the maps and the default level; loggers and the sink lock for themselves
  std::shared_ptr<stderr_sink> sink = std::make_shared<stderr_sink>();
  std::map<std::string, std::shared_ptr<spdlog::logger>, std::less<>> loggers;
  level_map levels;
  spdlog::level::level_enum level = spdlog::level::info;

  state() { sink->set_formatter(std::make_unique<line_formatter>(false, "")); }
  spdlog::level::level_enum level_of(std::string_view name) const {
    const auto found = levels.find(name);
    return found == levels.end() ? level : found->second;
  }
};

// Never destroyed: a thread or a static destructor may log at the very end.
state &shared() {
  static state *const only = new state;
  return *only;
}

template <class List>
std::string joined(const List &names) {
  std::string out;
  for (const auto &name : names) out += (out.empty() ? "" : ", ") + std::string(name);
  return out;
}

result<spdlog::level::level_enum> level_from(std::string_view text) {
  const std::string name = lower(trim(text));
  for (const auto &[known, level] : levels)
    if (name == known) return level;
  return fail(errc::invalid, "\"" + std::string(trim(text)) +
                                 "\" is not a log level; levels are debug, info, warn, error, dpanic, panic, fatal (and trace)");
}

status parse_levels(std::string_view text, spdlog::level::level_enum &level, level_map &per_subsystem) {
  for (const std::string &part : split_trimmed(text, ',')) {
    if (part.empty()) continue;
    const size_t equals = part.find('=');
    auto wanted = level_from(equals == std::string::npos ? part : part.substr(equals + 1));
    if (!wanted) return wanted.why();
    if (equals == std::string::npos) {
      level = *wanted;
      continue;
    }
    const std::string subsystem(trim(std::string_view(part).substr(0, equals)));
    bool known = false;
    for (const std::string_view name : subsystems) known = known || name == real_name(subsystem);
    if (!known)
      return fail(errc::invalid, "\"" + subsystem + "\" is not a log subsystem; subsystems are " + joined(subsystems) +
                                     " (grpc and p2p mean link)");
    per_subsystem[std::string(real_name(subsystem))] = *wanted;
  }
  return {};
}

}  // namespace

status start_logging(const log_options &options) {
  spdlog::level::level_enum level = spdlog::level::info;
  level_map per_subsystem;
  if (status parsed = parse_levels(options.level, level, per_subsystem); !parsed) return parsed;
  const std::string_view format = options.format;
  if (!format.empty() && format != "color" && format != "nocolor" && format != "json")
    return fail(errc::invalid, "\"" + options.format + "\" is not a log format; formats are color, nocolor, json");

  state &s = shared();
  const std::lock_guard lock(s.mutex);
  s.level = level;
  s.levels = std::move(per_subsystem);
  s.sink->set_color_mode(format == "color" ? spdlog::color_mode::always
                         : format.empty()  ? spdlog::color_mode::automatic
                                           : spdlog::color_mode::never);
  s.sink->set_formatter(std::make_unique<line_formatter>(format == "json", options.peer_id));
  for (const auto &[name, logger] : s.loggers) logger->set_level(s.level_of(name));
  return {};
}

void stop_logging() { shared().sink->flush(); }

uint64_t log_lines_lost() { return shared().sink->lost(); }

spdlog::logger &log(std::string_view subsystem) {
  const std::string_view name = real_name(subsystem);
  state &s = shared();
  const std::lock_guard lock(s.mutex);
  if (const auto found = s.loggers.find(name); found != s.loggers.end()) return *found->second;
  auto made = std::make_shared<spdlog::logger>(std::string(name), s.sink);
  made->set_level(s.level_of(name));
  made->flush_on(spdlog::level::warn);
  return *s.loggers.emplace(std::string(name), std::move(made)).first->second;
}

}  // namespace hive::observe
