// Router and agent on one loop with a wire between them on which anything may appear, in both directions and from strangers,
// while streams run. Every stream ends at most once, and in the end nothing is held.
#include "fuzz.hpp"
#include "link/link_bench_test.hpp"
#include "observe/log.hpp"

using namespace hive;
using fuzz::must;
using namespace hive::link;
namespace bed = hive::link::testing;

namespace {

struct wire {
  explicit wire(fuzz::input &i) : in(i) {
    b.options.keys = keys();
    b.agent_options.router_keys = {keys().public_key};
    b.until([this] { return agent().up(); });
  }
  // The router's, derived from the secret once and not by each of them each time.
  static const curve_pair &keys() {
    static const curve_pair made = router_keys(bed::secret_a);
    return made;
  }
  bed::agent_side &agent() {
    if (b.agents.empty()) {
      b.start_hubs();
      b.start_agent();
    }
    return *b.agents[0];
  }

  // A record whose head is plausible in some fields and arbitrary in others.
  std::string record() {
    static constexpr uint8_t kinds[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 20, 21, 22, 23, 24, 25, 26, 27, 28, 99};
    record_head h;
    const uint8_t which = in.byte();
    h.what = static_cast<kind>(kinds[which % sizeof kinds]);
    h.flags = in.byte() & 31;
    h.stream = stream_id(in.byte());
    h.seq = in.byte();
    h.aux = in.byte() < 200 ? in.byte() : UINT32_MAX;
    h.credit = in.byte() < 200 ? in.word() : UINT32_MAX;
    const std::string_view meta = in.take(in.byte());
    const std::string payload(in.take(in.byte() & 127));
    std::string out(encoded_bytes(meta.size(), payload.size()), '\0');
    encode_record(reinterpret_cast<uint8_t *>(out.data()), h, meta, payload);
    return out;
  }
  uint64_t stream_id(uint8_t pick) {
    if (pick < 40) return 0;
    hub_link *l = b.link_of(agent());
    if (l == nullptr || pick > 240) return static_cast<uint64_t>(pick) << 40 | pick;
    if (!l->streams.empty() && pick < 220) {
      auto it = l->streams.begin();
      std::advance(it, pick % l->streams.size());
      return it->first;
    }
    return make_stream_id(l->epoch, 0, pick);
  }
  void inject(bool to_hub, std::string bytes) {
    for (auto &c : net.net.connections) {
      if (!c->open || c->dialler == nullptr || c->listener == nullptr || bytes.empty()) continue;
      net.net.in_pipe += bytes.size();
      bed::fake_end &end = to_hub ? *c->listener : *c->dialler;
      net.net.deliver(*c, to_hub, end, {bed::fake_end::event::kind::message, to_hub ? c->at_listener : c->at_dialler, std::move(bytes), {}, 0});
      return;
    }
  }
  void open(uint8_t how) {
    static constexpr const char *targets[] = {"/echo", "/send/3000", "/silent", "/busy", "/nobody", "/accept", "/hold-body", "/send/100000"};
    if (clients.size() >= 16) return;
    // A quarter of the bodies takes more than one record.
    auto c = b.open(agent(), targets[how & 7], std::string((how & 40) == 40 ? 70'000 : how, 'b'));
    c->reads = (how & 16) == 0;
    clients.push_back(std::move(c));
  }
  void step() {
    const uint8_t op = in.byte();
    switch (op % 10) {
      case 0: return inject(true, std::string(in.take(in.word() % 600)));
      case 1: return inject(false, std::string(in.take(in.word() % 600)));
      case 2:
      case 3: return inject(true, record());
      case 4:
      case 5: return inject(false, record());
      case 6: return open(in.byte());
      case 7:
        if (!clients.empty()) clients[in.byte() % clients.size()]->stream.reset();
        return;
      case 8:
        if (strangers.size() < 2) {
          strangers.push_back(std::make_unique<bed::raw_agent>(b, 3, &keys().public_key));
          if ((op & 64) != 0) strangers.back()->hello(strangers.back()->id.peer_id);
        }
        if (!strangers.back()->lost) strangers.back()->send_raw((op & 128) != 0 ? record() : std::string(in.take(in.byte())));
        return;
      default: b.settle(); return;
    }
  }
  void end() {
    b.settle();
    for (auto &c : clients) must(c->ends <= 1 && c->heads <= 1, "a stream ends once");
    if (b.link_of(agent()) == nullptr)
      for (auto &c : clients) must(c->over() || !c->stream, "a lost link ends its streams");
    for (auto &c : clients) must(c->max_unread <= b.options.stream_window + max_payload_bytes, "a stream holds its window at most");
    must(static_cast<size_t>(b.slots) <= clients.size(), "no slot is held twice");
    clients.clear();
    strangers.clear();
    b.agents.clear();
    b.settle();
    b.hubs.clear();
    b.settle();
    must(b.slots == 0, "nothing is held in the end");
  }

  fuzz::input &in;
  bed::fake_factory net;
  bed::bench b{net};
  std::vector<std::unique_ptr<bed::client>> clients;
  std::vector<std::unique_ptr<bed::raw_agent>> strangers;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const bool quiet = observe::start_logging({.level = "fatal"}).ok();  // four lines each time else
  must(quiet, "logging");
  fuzz::input in(data, size);
  wire w(in);
  for (int steps = 0; !in.empty() && steps < 64; ++steps) w.step();
  w.end();
  return 0;
}
