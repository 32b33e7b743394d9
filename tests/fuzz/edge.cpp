// A whole worker in process: bytes of a client, cut anywhere, over the HTTP server, keys, routes, the scan of the body, routing and the
// link to an agent and back. Whatever comes in, each request has one answer and one record with the same status, in order; nobody
// without a key reaches an engine or /admin; no credential does; and in the end nothing is held.
#include "fuzz.hpp"
#include "gateway/edge_bed.hpp"
#include "http/head.hpp"

using namespace hive;
using fuzz::must;
namespace bed = hive::gateway::testing;

namespace {

bed::edge_bed &shared() {
  static bed::edge_bed b;
  return b;
}

// The statuses of the final answers, taken apart with the parsers for the other direction, which have targets of their own.
std::vector<int> statuses_of(std::string_view rest, const std::vector<bed::edge_records::one> &records) {
  std::vector<int> out;
  while (!rest.empty()) {
    size_t from = 0;
    const size_t end = http::find_head_end(rest, from);
    must(end > 0, "a head is whole");
    http::answer_head_parser parser;
    must(!parser.parse(rest.substr(0, end)), "a head is well formed");
    rest.remove_prefix(end);
    const http::answer_head &h = parser.head();
    if (h.status < 200) continue;
    must(out.size() < records.size(), "an answer has a record");
    const auto &record = records[out.size()];
    must(h.status == record.status, "the record says what was sent");
    const http::field *id = http::find_field(h.fields, "x-request-id");
    must(id != nullptr && id->value == record.request_id, "an answer has the id of its record");
    out.push_back(h.status);
    http::body_decoder d;
    if (record.method == "HEAD" || h.status == 204) d.start_length(0);
    else if (h.chunked) d.start_chunked(UINT64_MAX);
    else if (h.content_length) d.start_length(*h.content_length);
    else d.start_until_close(UINT64_MAX);
    std::string body(rest);
    const auto step = d.decode({body.data(), body.size()});
    rest.remove_prefix(step.consumed);
    if (!d.done()) {
      must(rest.empty(), "nothing comes after a cut answer");
      must(!h.content_length || record.status == 499, "an answer of known length is whole");
    }
    must(h.status != 401 || record.tenant.empty(), "whoever was not let in is not known");
  }
  return out;
}

template <class Cut>
std::vector<int> serve(std::string_view wire, uint8_t how, Cut &&next_size) {
  bed::edge_bed &b = shared();
  b.forget();
  b.core.limits.half_close_is_gone = (how & 1) != 0;
  const int opens = b.behind.opens, changes = b.admin.changes;
  const bool has_key = wire.find(bed::client_secret) != std::string_view::npos, has_admin = wire.find(bed::admin_secret) != std::string_view::npos;
  const int fd = b.connect();
  std::string got;
  // Everything that was answered. Not after each piece: most are answered by nothing, and what waits changes nothing.
  const auto rest = [&] { must(b.settle() < 200'000, "a loop that comes to rest"); };
  const auto listen = [&] {
    char bytes[4096];
    for (bool some = true; some;) {
      rest();
      some = false;
      for (ssize_t n; (n = ::recv(fd, bytes, sizeof bytes, 0)) > 0; some = true) got.append(bytes, static_cast<size_t>(n));
    }
  };
  for (size_t pieces = 1; !wire.empty(); ++pieces) {
    const std::string_view piece = wire.substr(0, next_size());
    if (::send(fd, piece.data(), piece.size(), MSG_NOSIGNAL) < 0) break;
    wire.remove_prefix(piece.size());
    if (pieces % fuzz::pieces_unheard == 0) listen();
    else rest();
  }
  listen();
  ::close(fd);
  b.settle();
  b.close_all();
  must(b.at_rest(), "nothing is held");
  must(b.records.started == b.records.all.size(), "what began has ended, once");
  must(!b.behind.saw_credential, "no credential of a client reaches an engine");
  must(b.behind.opens == opens || has_key, "nobody without a key reaches an engine");
  must(b.admin.changes == changes || has_admin, "nobody without a key changes anything");
  for (const auto &r : b.records.all) must(r.client == "192.0.2.1", "a client's address is its connection's");
  return statuses_of(got, b.records.all);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::same_however_cut(data, size, [](auto... with) { return serve(with...); }, "the same statuses however the bytes are cut");
  return 0;
}
