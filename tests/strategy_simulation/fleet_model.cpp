#include "fleet_model.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>
#include <queue>
#include <sstream>
#include <stdexcept>

namespace hive::simulation {

namespace {

struct event {
  double at_s;
  uint64_t order;
  bool end;
  uint32_t agent;
  size_t request;
  double cached;
  bool operator<(const event &o) const { return at_s != o.at_s ? at_s > o.at_s : order > o.order; }
};

struct engine {
  explicit engine(const engine_kind &k) : kind(k), cache(k.cache_blocks) {}
  double pace(double at_s) const { return at_s >= kind.slow_from_s && at_s < kind.slow_until_s ? kind.slow_factor : 1; }
  engine_kind kind;
  lru_cache cache;
  double busy_until_s = 0;
};

// As the router's own estimator (docs/latency.md): slower slowly, faster quickly.
void sample(agent_state &a, double ms) {
  if (a.srtt_ms == 0) a.srtt_ms = ms;
  else a.srtt_ms += (ms - a.srtt_ms) * (ms < a.srtt_ms ? 0.5 : 0.125);
}

}  // namespace

double run_result::first_p(double share) const {
  std::vector<double> all;
  for (const answer &a : answers) all.push_back(a.first_s);
  std::sort(all.begin(), all.end());
  return all.at(std::min(all.size() - 1, static_cast<size_t>(static_cast<double>(all.size()) * share)));
}

run_result simulate(const std::vector<arrival> &requests, const std::vector<engine_kind> &kinds, rule &by) {
  std::vector<engine> engines(kinds.begin(), kinds.end());
  std::vector<agent_state> seen(kinds.size());
  for (size_t i = 0; i < kinds.size(); ++i) seen[i].capacity = kinds[i].capacity;
  run_result out;
  out.prefilled.resize(kinds.size());
  std::priority_queue<event> coming;
  uint64_t order = 0;
  double prompts = 0, hits = 0;

  const auto happen = [&](const event &e) {
    const arrival &r = requests[e.request];
    agent_state &a = seen[e.agent];
    if (e.end) {
      --a.active;
      a.tokens -= r.prompt + r.output;
    } else {
      sample(a, (e.at_s - r.at_s) * 1000);
    }
    by.tell(e.at_s, {e.agent, e.at_s - r.at_s, e.end, &r, e.cached});
  };
  for (size_t k = 0; k < requests.size(); ++k) {
    const arrival &r = requests[k];
    for (; !coming.empty() && coming.top().at_s <= r.at_s; coming.pop()) happen(coming.top());
    const uint32_t i = by.choose(r.at_s, r, seen);
    engine &e = engines.at(i);
    const double cached = std::min<double>(r.prompt, static_cast<double>(e.cache.match(r.blocks)) * tokens_a_block);
    e.cache.touch(r.blocks);
    const double start = std::max(r.at_s, e.busy_until_s);
    const double first = start + (r.prompt - cached) / e.kind.prefill_tokens_s * e.pace(start);
    const double end = first + r.output * e.kind.token_s * e.pace(first);
    e.busy_until_s = first;
    ++seen[i].active;
    seen[i].tokens += r.prompt + r.output;
    out.prefilled[i] += r.prompt - cached;
    prompts += r.prompt;
    hits += cached;
    coming.push({first, ++order, false, i, k, cached});
    coming.push({end, ++order, true, i, k, cached});
    out.answers.push_back({r.at_s, first - r.at_s, end - r.at_s, i});
  }
  for (; !coming.empty(); coming.pop()) happen(coming.top());
  out.hit_rate = hits / std::max(1.0, prompts);
  const double mean = std::accumulate(out.prefilled.begin(), out.prefilled.end(), 0.0) / static_cast<double>(kinds.size());
  out.busiest = *std::max_element(out.prefilled.begin(), out.prefilled.end()) / std::max(1.0, mean);
  return out;
}

std::vector<arrival> read_trace(const std::string &path, double speed, uint32_t ahead) {
  std::ifstream in(path);
  std::vector<arrival> out;
  double last_ms = -1;
  for (uint32_t i = 0; i < ahead; ++i) {
    arrival r;
    last_ms = i / 1000.0;
    r.at_s = last_ms / 1000 / speed;
    r.prompt = r.output = 1;
    out.push_back(r);
  }
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    arrival r;
    double ms = 0;
    if (!(words >> ms >> r.prompt >> r.output)) throw std::runtime_error(path + ": not a request: " + line);
    // A router takes what comes in the same millisecond one after the other.
    ms = last_ms = std::round(std::max(ms, last_ms + 0.001) * 1e4) / 1e4;
    r.at_s = ms / 1000 / speed;
    for (std::string range; words >> range;) {
      const size_t dash = range.find('-');
      const uint64_t first = std::stoull(range);
      const uint64_t last = dash == std::string::npos ? first : std::stoull(range.substr(dash + 1));
      for (uint64_t id = first; id <= last; ++id) r.blocks.push_back(id);
    }
    out.push_back(std::move(r));
  }
  if (out.empty()) throw std::runtime_error(path + ": no requests");
  return out;
}

}  // namespace hive::simulation
