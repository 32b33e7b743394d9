// The client against an engine that answers with arbitrary bytes, cut anywhere: one end or one failure, no more data than was
// sent, the same outcome however it is cut, and nothing is left.
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.hpp"
#include "http/client_call.hpp"

using namespace hive;
using fuzz::must;

namespace {

struct news final : http::call_events {
  void on_head(const http::response_head &h) override {
    must(heads++ == 0 && !over(), "one head");
    must(h.status >= 200 && h.status <= 599, "a final status");
    status = h.status;
    if (leave_at_head) call.reset();
  }
  void on_data(std::string_view bytes) override {
    must(heads == 1 && !over() && !bytes.empty(), "data comes after the head");
    data += bytes;
    if (leave_at_data) call.reset();
    else if (pause_at_data) call->pause();
  }
  void on_end() override {
    must(heads == 1 && !over(), "one end");
    ended = true;
  }
  void on_failed(const http::call_failure &f) override {
    must(!over() && !f.message.empty() && !f.timed_out, "one failure, which says why");
    failed = true;
  }
  bool over() const { return ended || failed; }
  bool operator==(const news &o) const {
    return heads == o.heads && status == o.status && data == o.data && ended == o.ended && failed == o.failed;
  }
  std::unique_ptr<http::call> call;
  int heads = 0, status = 0;
  std::string data;
  bool ended = false, failed = false, leave_at_head = false, leave_at_data = false, pause_at_data = false;
};

loop &home() {
  static loop l;
  return l;
}

size_t turn() {
  size_t ran = 0;
  while (home().io().poll_one() > 0) must(++ran < 100'000, "a loop that comes to rest");
  return ran;
}

template <class Cut>
void run(news &n, std::string_view wire, uint8_t how, Cut &&next_size) {
  http::client_options options;
  options.max_header_bytes = 2048;
  options.max_answer_bytes = 4096;
  // A port that nobody listens on: where a retry on a fresh connection ends.
  const auto client = std::make_shared<http::client::impl>(home(), http::origin{"127.0.0.1", 1, ""}, options);
  int pair[2];
  must(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0, "a socket pair");
  http::loop_socket socket(home().io().get_executor());
  socket.assign(boost::asio::ip::tcp::v4(), pair[0]);
  client->keep(http::connection_ptr(new http::origin_connection(client, std::move(socket))));

  static constexpr const char *methods[] = {"GET", "POST", "HEAD", "POST"};
  http::call_request request;
  request.method = methods[how & 3];
  request.target = "/x";
  request.content_length = (how & 1) != 0 ? 5 : 0;
  n.call = std::make_unique<http::running_call>(client, request, n);
  if ((how & 3) == 1) n.call->body("hello");
  turn();
  size_t pieces = 0, work = 0;
  const size_t size = wire.size();
  while (!wire.empty() && !n.over() && n.call) {
    const std::string_view piece = wire.substr(0, next_size());
    if (::send(pair[1], piece.data(), piece.size(), MSG_NOSIGNAL) < 0) break;
    wire.remove_prefix(piece.size());
    ++pieces;
    work += turn();
    if (n.call && !n.over()) n.call->resume();  // it reads on with the next piece
  }
  work += turn();
  // What one read brought may need several turns of a caller that pauses after each.
  for (size_t i = 0; n.pause_at_data && n.call && !n.over() && i < 4; ++i) {
    n.call->resume();
    work += turn();
  }
  must(work <= 1000 + 40 * pieces, "bounded work");
  must(n.data.size() <= size, "no more data than was sent");
  if (size > 0) {
    ::close(pair[1]);
    turn();
    if (n.call && !n.over()) n.call->resume();
    turn();
    must(n.over() || !n.call, "an engine that is gone ends the call");
  } else {
    ::close(pair[1]);
  }
  n.call.reset();
  client->shut();
  turn();
  must(client->open == 0, "nothing is left");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::input in(data, size);
  const uint8_t how = in.byte(), seed = in.byte();
  const std::string_view wire = in.rest();
  news whole, pieces;
  for (news *n : {&whole, &pieces}) {
    n->leave_at_head = (how & 0x30) == 0x10;
    n->leave_at_data = (how & 0x30) == 0x20;
    n->pause_at_data = (how & 0x30) == 0x30;
  }
  run(whole, wire, how, [&] { return size_t{60'000}; });
  fuzz::cuts cut(seed);
  run(pieces, wire, how, [&] { return cut.next(); });
  must(whole.heads == pieces.heads && whole.status == pieces.status, "the same head however it is cut");
  if (!whole.leave_at_data) must(whole == pieces, "the same outcome however it is cut");
  return 0;
}
