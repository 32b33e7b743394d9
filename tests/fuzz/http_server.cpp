// The whole HTTP edge in process: bytes of a client go into a server's connection and are cut anywhere, a service answers in every
// way there is. Whatever comes in, the answers are well formed and in order, no exception escapes but the service's own, the work
// is bounded and nothing is left.
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>
#include <vector>

#include "base/text.hpp"
#include "fuzz.hpp"
#include "http/connection.hpp"

using namespace hive;
using fuzz::must;

namespace {

constexpr const char *own_exception = "handler broke";

struct request_note {
  bool head = false;
  bool cut = false;   // the service ends it without a proper end, or not at all
};

class every_service final : public http::service {
 public:
  void on_request(http::exchange &x) override {
    const std::string path(x.head().path);
    requests.push_back({x.head().method == "HEAD", false});
    must(x.head().fields.size() <= http::max_fields, "bounded fields");
    x.serve(std::make_unique<answer>(*this, x, path.size() > 1 ? path[1] : ' '));
    const http::field text[] = {{"content-type", "text/plain"}, {"X-Evil", "a\r\nSet-Cookie: b"}};
    switch (path.size() > 1 ? path[1] : ' ') {
      case 'e': return x.read_body(4096);
      case 'b': return x.read_body(16);
      case 's':
        x.begin({200, text});
        x.write("one ");
        x.write("two");
        return x.end();
      case 'w':
        x.begin({200, text});
        return x.write("until it was written");
      case 'c':
        requests.back().cut = true;
        x.begin({200, text});
        x.write("cut");
        return x.abort();
      case 'h':
        requests.back().cut = true;
        return;
      case 't':
        requests.back().cut = true;
        throw std::runtime_error(own_exception);
      case 'n': return x.respond({204, text}, "");
      default: return x.respond({404, text}, R"({"error":{"code":"not_found"}})");
    }
  }
  std::string refusal_body(int status, std::string_view what) override {
    must(status >= 400 && !what.empty(), "a refusal says why");
    return "{\"refused\":" + std::to_string(status) + "}";
  }
  std::vector<request_note> requests;
  int live = 0;

 private:
  struct answer final : http::responder {
    answer(every_service &s, http::exchange &e, char k) : owner(s), x(e), kind(k) { ++owner.live; }
    ~answer() override { --owner.live; }
    void on_body(http::body_ptr body) override {
      must(body->size() <= (kind == 'b' ? 16u : 4096u), "bounded body");
      must(body->capacity() >= body->size() + http::body_padding, "a body may be read past its end");
      if (kind == 'e') return x.respond({200, {}}, *body);
      x.begin({200, {}});
      x.write(*body);
      x.end();
    }
    void on_body_failed(http::body_error e) override {
      x.respond({e == http::body_error::too_large ? 413 : 400, {}}, R"({"error":{"code":"request_invalid"}})");
    }
    void on_written(size_t) override {
      if (kind == 'w' && !std::exchange(ended, true)) x.end();
    }
    void on_gone(http::gone) override { kind = 'g'; }
    every_service &owner;
    http::exchange &x;
    char kind;
    bool ended = false;
  };
};

struct edge {
  edge() {
    limits.max_header_bytes = 2048;
    core.on_closed = [](http::server_core &) {};
  }
  loop home;
  every_service service;
  http::server_limits limits;
  http::server_core core{home, service, limits};
};

struct answers {
  std::vector<int> statuses;
  std::string bodies;
  bool operator==(const answers &) const = default;
};

// Takes the answers apart with the parsers for the other direction, which have targets of their own.
answers take_apart(std::string wire, const std::vector<request_note> &requests, bool ended) {
  answers out;
  size_t number = 0;
  std::string_view rest = wire;
  bool cut = false;
  while (!rest.empty()) {
    must(!cut, "nothing comes after a cut answer");
    size_t from = 0;
    const size_t end = http::find_head_end(rest, from);
    must(end > 0, "a head is whole");
    http::answer_head_parser parser;
    must(!parser.parse(rest.substr(0, end)), "a head is well formed");
    rest.remove_prefix(end);
    const http::answer_head &h = parser.head();
    for (const auto &f : h.fields) must(!iequals(f.name, "set-cookie"), "no field comes out of a value");
    if (h.status < 200) {
      must(h.status == 100, "no other interim answer");
      continue;
    }
    out.statuses.push_back(h.status);
    const bool refusal = number >= requests.size();
    const request_note note = refusal ? request_note{} : requests[number];
    ++number;
    http::body_decoder d;
    if (note.head || h.status == 204) d.start_length(0);
    else if (h.chunked) d.start_chunked(UINT64_MAX);
    else if (h.content_length) d.start_length(*h.content_length);
    else d.start_until_close(UINT64_MAX);
    std::string body(rest);
    const auto step = d.decode({body.data(), body.size()});
    rest.remove_prefix(step.consumed);
    if (ended && d.now() == http::body_decoder::state::more) d.end_of_input();
    cut = !d.done();
    must(!cut || note.cut, "an answer is whole unless the service broke it off");
    out.bodies.append(step.payload).push_back('|');
    if (refusal) {
      must(h.status >= 400 && step.payload.starts_with('{') && !h.keep_alive && rest.empty(), "a refusal is the last, in JSON");
    }
  }
  return out;
}

edge &shared() {
  static edge e;
  return e;
}

size_t turn(edge &e) {
  size_t ran = 0;
  for (size_t n = 1; n > 0; ran += n) {
    try {
      n = e.home.io().poll_one();
    } catch (const std::runtime_error &error) {
      must(std::string_view(error.what()) == own_exception, "no exception but the service's own");
    }
    must(ran < 100'000, "a loop that comes to rest");
  }
  return ran;
}

template <class Cut>
answers serve(std::string_view wire, uint8_t how, Cut &&next_size) {
  edge &e = shared();
  e.service.requests.clear();
  e.core.limits.half_close_is_gone = (how & 1) != 0;
  e.core.draining = (how & 6) == 6;
  // A client that has sent only empty lines is idle, and a server that drains ends it without waiting for more.
  while (e.core.draining && wire.starts_with("\r\n")) wire.remove_prefix(2);
  int pair[2];
  must(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0, "a socket pair");
  http::loop_socket socket(e.home.io().get_executor());
  socket.assign(boost::asio::ip::tcp::v4(), pair[0]);
  (new http::connection(e.core, std::move(socket), "192.0.2.1"))->start();

  std::string got;
  bool ended = false;
  size_t work = 0, pieces = 0;
  // Everything that was answered. Not after each piece: most are answered by nothing, and what waits changes nothing.
  const auto listen = [&] {
    char bytes[4096];
    for (bool some = true; some;) {
      work += turn(e);
      some = false;
      for (ssize_t n = 1; n > 0;) {
        n = ::recv(pair[1], bytes, sizeof bytes, 0);
        if (n > 0) got.append(bytes, static_cast<size_t>(n));
        some = some || n > 0;
        ended = ended || n == 0;
      }
    }
  };
  listen();
  while (!wire.empty()) {
    const std::string_view piece = wire.substr(0, next_size());
    if (::send(pair[1], piece.data(), piece.size(), MSG_NOSIGNAL) < 0) break;
    wire.remove_prefix(piece.size());
    if (++pieces % fuzz::pieces_unheard == 0) listen();
    else work += turn(e);
  }
  if ((how & 8) != 0) {
    ::shutdown(pair[1], SHUT_WR);
  }
  listen();
  must(work <= 1000 + 40 * (pieces + e.service.requests.size()), "bounded work");
  const std::vector<request_note> requests = e.service.requests;
  ::close(pair[1]);
  work = turn(e);
  must(work <= 1000, "bounded work at the end");
  if (e.core.limits.half_close_is_gone) must(e.core.connections.empty(), "a client that left leaves nothing");
  while (!e.core.connections.empty()) http::connection::from(*e.core.connections.next).shut(http::gone::shutdown);
  turn(e);
  must(e.core.counters.open == 0 && e.core.busy == 0 && e.service.live == 0, "nothing is left");
  return take_apart(std::move(got), requests, ended);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::same_however_cut(data, size, [](auto... with) { return serve(with...); }, "the same answers however the bytes are cut");
  return 0;
}
