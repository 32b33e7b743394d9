// hivenet-bench: a closed-loop load generator for chat completions. Prints one JSON object.
//   hivenet-bench ops    --url URL --connections N --seconds S [--size BYTES | --body FILE] [--model ID] [--pid NAME=PID]...
//   hivenet-bench stream --url URL --streams N --seconds S [--tokens N] [--size BYTES] [--model ID] [--pid NAME=PID]...
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/variables_map.hpp>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>

#include "base/clock.hpp"
#include "hivenet_bench/load.hpp"
#include "hivenet_bench/percentile.hpp"

namespace {

namespace json = boost::json;
using namespace hive::bench;

// A user's mistake, told as it is.
struct usage_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct flags {
  std::string mode, url, body_file, model = "sim-model";
  size_t connections = 1, size = 1024;
  int tokens = 16;
  double seconds = 2, warm_up = 0.5, ramp = 0, refused_pause_ms = 0;
  bool stamped = false;
  std::string key;
  std::vector<std::string> pids;
};

flags read_flags(int argc, char **argv) {
  namespace po = boost::program_options;
  flags f;
  po::options_description known("hivenet-bench ops|stream --url URL [flags]");
  known.add_options()("help", "this text")("mode", po::value(&f.mode), "ops: buffered chats; stream: SSE")(
      "url", po::value(&f.url), "http://HOST:PORT[/PATH]; path /v1/chat/completions unless given")(
      "connections", po::value(&f.connections), "connections, each with one request at a time; also --streams")(
      "seconds", po::value(&f.seconds), "measured time")("warm-up", po::value(&f.warm_up), "seconds before it that do not count")(
      "size", po::value(&f.size), "bytes of the request body that is made")("body", po::value(&f.body_file), "file with the body instead")(
      "ramp", po::value(&f.ramp), "seconds of the warm-up over which the connections open")(
      "refused-pause-ms", po::value(&f.refused_pause_ms), "pause of a connection after an answer that is not 2xx")(
      "stamped", po::bool_switch(&f.stamped), "events carry time stamps (engine_sim --stamp): report their delay")(
      "key", po::value(&f.key), "sent as Authorization: Bearer")(
      "model", po::value(&f.model), "model id in the body")("tokens", po::value(&f.tokens), "max_tokens in the body")(
      "pid", po::value(&f.pids)->composing(), "NAME=PID: report this process's CPU time");
  po::positional_options_description mode;
  mode.add("mode", 1);
  std::vector<std::string> words(argv + 1, argv + argc);
  for (std::string &w : words)
    if (w == "--streams" || w.starts_with("--streams=")) w.replace(0, 9, "--connections");
  po::variables_map given;
  po::store(po::command_line_parser(words).options(known).positional(mode).run(), given);
  po::notify(given);
  if (given.contains("help")) {
    std::cout << known;
    std::exit(0);
  }
  if (f.mode != "ops" && f.mode != "stream") throw usage_error("the first word is the mode: ops or stream");
  if (f.connections < 1 || f.connections > 20'000) throw usage_error("--connections is 1 to 20000");
  if (!(f.seconds >= 0.1 && f.seconds <= 3600)) throw usage_error("--seconds is 0.1 to 3600");
  if (!(f.warm_up >= 0 && f.warm_up <= 3600)) throw usage_error("--warm-up is 0 to 3600");
  if (!(f.ramp >= 0 && f.ramp <= f.warm_up)) throw usage_error("--ramp is 0 to the warm-up");
  if (!(f.refused_pause_ms >= 0 && f.refused_pause_ms <= 60'000)) throw usage_error("--refused-pause-ms is 0 to 60000");
  if (f.stamped && f.mode != "stream") throw usage_error("--stamped is for streams");
  return f;
}

std::string make_body(const flags &f) {
  if (!f.body_file.empty()) {
    std::ifstream file(f.body_file, std::ios::binary);
    if (!file) throw usage_error("--body: cannot read " + f.body_file);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  std::string body = "{\"model\":" + json::serialize(json::string(f.model)) + ",\"stream\":" + (f.mode == "stream" ? "true" : "false") +
                     ",\"max_tokens\":" + std::to_string(f.tokens) + ",\"messages\":[{\"role\":\"user\",\"content\":\"";
  constexpr std::string_view end = "\"}]}", words = "the quick brown fox jumps over the lazy dog ";
  if (body.size() + end.size() > f.size) throw usage_error("--size is at least " + std::to_string(body.size() + end.size()) + " here");
  for (size_t i = 0; body.size() + end.size() < f.size; ++i) body += words[i % words.size()];
  return body.append(end);
}

load_options make_options(const flags &f) {
  constexpr std::string_view scheme = "http://";
  std::string_view url = f.url;
  if (!url.starts_with(scheme)) throw usage_error("--url is http://HOST:PORT[/PATH], not \"" + f.url + "\"");
  url.remove_prefix(scheme.size());
  const size_t slash = std::min(url.find('/'), url.size());
  const std::string authority(url.substr(0, slash));
  const std::string path(slash == url.size() ? "/v1/chat/completions" : url.substr(slash));
  const size_t colon = authority.rfind(':');
  load_options o;
  o.host = authority.substr(0, colon);
  o.port = colon == std::string::npos ? "80" : authority.substr(colon + 1);
  const std::string body = make_body(f);
  o.request = "POST " + path + " HTTP/1.1\r\nHost: " + authority + "\r\nContent-Type: application/json\r\n" +
              (f.key.empty() ? "" : "Authorization: Bearer " + f.key + "\r\n") + "Content-Length: " +
              std::to_string(body.size()) + "\r\n\r\n" + body;
  o.connections = f.connections;
  o.stream = f.mode == "stream";
  o.stamped = f.stamped;
  o.ramp_ns = static_cast<uint64_t>(f.ramp * double(hive::ns_per_s));
  o.refused_pause_ns = static_cast<uint64_t>(f.refused_pause_ms * double(hive::ns_per_ms));
  o.warm_up_ns = static_cast<uint64_t>(f.warm_up * double(hive::ns_per_s));
  o.measured_ns = static_cast<uint64_t>(f.seconds * double(hive::ns_per_s));
  for (const std::string &p : f.pids) {
    const size_t equals = p.find('=');
    pid_t pid = 0;
    if (equals != std::string::npos) std::from_chars(p.data() + equals + 1, p.data() + p.size(), pid);
    if (pid <= 0) throw usage_error("--pid is NAME=PID, not \"" + p + "\"");
    o.watched.push_back({p.substr(0, equals), pid});
  }
  return o;
}

double rounded(double v) { return std::round(v * 100) / 100; }

json::object spread_us(std::vector<uint64_t> &ns) {
  const auto at = [&](uint32_t permille) { return rounded(double(percentile(ns, permille)) / 1e3); };
  return {{"p50", at(500)}, {"p90", at(900)}, {"p99", at(990)}, {"max", at(1000)}};
}

json::object report_of(const flags &f, const load_options &o, load_report &r) {
  const auto per_second = [&](uint64_t n) { return rounded(double(n) / r.seconds); };
  const auto cpu = [&](uint64_t us) {
    json::object c{{"us", us}};
    if (r.requests > 0) c["us_per_request"] = rounded(double(us) / double(r.requests));
    if (r.events > 0) c["us_per_event"] = rounded(double(us) / double(r.events));
    return c;
  };
  json::object out{{"mode", f.mode},         {"url", f.url},           {"connections", o.connections},
                   {"seconds", r.seconds},   {"requests", r.requests}, {"requests_per_second", per_second(r.requests)},
                   {"latency_us", spread_us(r.latency_ns)}};
  json::object statuses;
  for (const auto &[status, count] : r.statuses) statuses[std::to_string(status)] = count;
  out["statuses"] = std::move(statuses);
  out["errors"] = {{"connect", r.connect_failed}, {"closed_early", r.closed_early}, {"malformed", r.malformed}};
  if (o.stream) {
    out["events"] = r.events;
    out["events_per_second"] = per_second(r.events);
    out["events_per_stream"] = {{"min", r.requests > 0 ? r.fewest_events : 0}, {"max", r.most_events}};
    out["streams_without_done"] = r.without_done;
    out["first_event_us"] = spread_us(r.first_event_ns);
    if (o.stamped) out["delay_us"] = spread_us(r.delay_ns);
  }
  json::object processes;
  uint64_t sum = 0;
  for (size_t i = 0; i < r.cpu_us.size(); ++i) {
    processes[o.watched[i].name] = cpu(r.cpu_us[i]);
    sum += r.cpu_us[i];
  }
  out["cpu"] = std::move(processes);
  out["cpu_sum"] = cpu(sum);
  out["generator_cpu"] = cpu(r.own_cpu_us);
  return out;
}

}  // namespace

int main(int argc, char **argv) try {
  const flags f = read_flags(argc, argv);
  const load_options options = make_options(f);
  auto report = run_load(options);
  if (!report) {
    std::cerr << "hivenet-bench: " << report.why().text() << "\n";
    return 1;
  }
  std::cout << json::serialize(report_of(f, options, *report)) << std::endl;
  return report->requests > 0 ? 0 : 3;
} catch (const std::exception &e) {
  std::cerr << "hivenet-bench: " << e.what() << "\n";
  return 2;
}
