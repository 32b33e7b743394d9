// The client towards an https origin: what goes through, and who is not talked to.
#include "http/tls.hpp"

#include <gmock/gmock.h>

#include <csignal>

#include "base/test_folder.hpp"
#include "http/tls_bed.hpp"

namespace hive::http {
namespace {

using testing::HasSubstr;
using test::client_test;
using test::ok;
using test::own_certificate;
using test::raw_socket;
using test::recorder;
using test::scripted_origin;
using test::tls_peer;

class tls_test : public client_test {
 protected:
  tls_test() { std::signal(SIGPIPE, SIG_IGN); }  // OpenSSL writes without MSG_NOSIGNAL

  std::shared_ptr<const tls_trust> trusted(const own_certificate &c) {
    const std::string file = folder_.at("ca.pem");
    c.write(file);
    auto made = tls_trust::make(file);
    EXPECT_TRUE(made) << made.why().text();
    return *made;
  }
  void open_tls(uint16_t port, std::shared_ptr<const tls_trust> trust, const std::string &host = "localhost", uint64_t connect_ns = 3 * ns_per_s) {
    client_options o;
    o.trust = std::move(trust);
    o.connect_timeout_ns = connect_ns;
    thread_.on_loop([&] { client_ = std::make_unique<client>(thread_.get(), origin{host, port, "/base", true}, o); });
  }

  test_folder folder_;
  const own_certificate mine_{"DNS:localhost"};
};

TEST_F(tls_test, requests_and_answers_of_any_size_go_through_one_kept_connection) {
  const std::string large(1'000'000, 'x');
  std::string name, second;
  scripted_origin o([&](raw_socket &s, int) {
    tls_peer peer(s, mine_);
    name = peer.name;
    peer.until("end of the first");
    peer.send(ok);
    second = peer.until("END");
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n");
    peer.send(large);
    peer.until("never");
  });
  open_tls(o.port, trusted(mine_));
  recorder a(thread_), b(thread_);
  run(a, {}, "end of the first");
  EXPECT_EQ(a.data, "ok") << a.failure.message;
  EXPECT_EQ(kept(), 1u);
  run(b, {}, large + "END");
  EXPECT_FALSE(b.failed) << b.failure.message;
  EXPECT_EQ(b.data, large);
  EXPECT_EQ(b.written, large.size() + 3);
  EXPECT_THAT(second, HasSubstr("\r\n\r\n" + large + "END"));
  EXPECT_EQ(name, "localhost") << "SNI";
  EXPECT_EQ(o.connections, 1);
}

TEST_F(tls_test, an_address_is_verified_as_one) {
  const own_certificate by_address("IP:127.0.0.1");
  scripted_origin o([&](raw_socket &s, int) {
    tls_peer peer(s, by_address);
    if (peer.until("\r\n\r\n").empty()) return;
    EXPECT_EQ(peer.name, "") << "an address is no server name (RFC 6066)";
    peer.send(ok);
  });
  open_tls(o.port, trusted(by_address), "127.0.0.1");
  recorder good(thread_);
  run(good);
  EXPECT_EQ(good.data, "ok") << good.failure.message;
}

TEST_F(tls_test, nobody_is_talked_to_who_cannot_prove_who_it_is) {
  const own_certificate other("DNS:localhost"), misnamed("DNS:elsewhere.example");
  const struct {
    const char *what;
    const own_certificate &shown, &trusted;
    const char *why;
  } cases[] = {{"an unknown authority", other, mine_, "certificate"}, {"another name", misnamed, misnamed, "mismatch"}};
  for (const auto &c : cases) {
    std::atomic<bool> heard = false;
    scripted_origin o([&](raw_socket &s, int) {
      tls_peer peer(s, c.shown);
      heard = heard || !peer.until("\r\n\r\n").empty();
      thread_.note(c.what);
    });
    open_tls(o.port, trusted(c.trusted));
    recorder r(thread_);
    run(r, {}, "a secret");
    EXPECT_TRUE(r.failed) << c.what;
    EXPECT_THAT(r.failure.message, HasSubstr(c.why)) << c.what;
    EXPECT_FALSE(r.failure.bytes_sent) << c.what;
    EXPECT_EQ(r.failure.phase, call_phase::connecting);
    ASSERT_TRUE(thread_.wait_for(c.what));
    EXPECT_FALSE(heard) << c.what;
  }
}

TEST_F(tls_test, old_versions_plain_servers_and_no_trust_at_all_fail) {
  scripted_origin old([&](raw_socket &s, int) { tls_peer peer(s, mine_, TLS1_1_VERSION); });
  open_tls(old.port, trusted(mine_));
  recorder a(thread_), b(thread_), c(thread_);
  run(a);
  EXPECT_TRUE(a.failed) << "TLS 1.1";
  scripted_origin plain([](raw_socket &s, int) {
    s.receive();
    s.send(ok);
  });
  open_tls(plain.port, trusted(mine_));
  run(b);
  EXPECT_THAT(b.failure.message, HasSubstr("no TLS with localhost"));
  open_tls(plain.port, nullptr);
  run(c);
  EXPECT_THAT(c.failure.message, HasSubstr("no certificate authority"));
}

TEST_F(tls_test, a_body_until_close_is_whole_only_if_the_peer_says_so) {
  scripted_origin o([&](raw_socket &s, int number) {
    tls_peer peer(s, mine_);
    peer.until("\r\n\r\n");
    peer.send("HTTP/1.1 200 OK\r\n\r\nall of it");
    if (number == 1) peer.say_goodbye();
  });
  open_tls(o.port, trusted(mine_));
  recorder whole(thread_), cut(thread_);
  run(whole);
  EXPECT_EQ(whole.data, "all of it") << whole.failure.message;
  EXPECT_FALSE(whole.failed);
  run(cut);
  EXPECT_TRUE(cut.failed) << "a cut connection must not look like an end";
}

TEST_F(tls_test, a_silent_server_ends_with_the_connect_timeout_and_a_call_may_go_in_its_handshake) {
  scripted_origin o([&](raw_socket &s, int number) {
    if (!s.receive().empty()) thread_.note("hello " + std::to_string(number));
    s.until_end();
    thread_.note("closed " + std::to_string(number));
  });
  open_tls(o.port, trusted(mine_), "127.0.0.1", 50 * ns_per_ms);  // a name might take as long to resolve
  recorder slow(thread_), left(thread_);
  run(slow, {}, "a body that is given during the handshake");
  EXPECT_TRUE(slow.failure.timed_out);
  EXPECT_FALSE(slow.failure.bytes_sent);
  ASSERT_TRUE(thread_.wait_for("closed 1"));
  open_tls(o.port, trusted(mine_));
  start(left, {}, "body");
  ASSERT_TRUE(thread_.wait_for("hello 2"));
  thread_.on_loop([&] { call_.reset(); });
  ASSERT_TRUE(thread_.wait_for("closed 2"));
  EXPECT_EQ(left.ends, 0);
}

TEST_F(tls_test, a_kept_connection_that_dies_is_replaced) {
  scripted_origin o([&](raw_socket &s, int number) {
    tls_peer peer(s, mine_);
    peer.until("first");
    peer.send(ok);
    if (number == 2) return;
    peer.until("second");
    s.reset();
  });
  open_tls(o.port, trusted(mine_));
  recorder a(thread_), b(thread_);
  run(a, {}, "first");
  run(b, {}, "second, not the first");
  EXPECT_EQ(b.data, "ok") << b.failure.message;
  EXPECT_EQ(o.connections, 2);
}

TEST(tls_trust, a_file_without_certificates_is_refused_by_name) {
  const test_folder folder;
  const auto none = tls_trust::make(folder.at("missing.pem"));
  ASSERT_FALSE(none);
  EXPECT_THAT(none.why().text(), HasSubstr("missing.pem"));
  EXPECT_TRUE(tls_trust::make(""));
}

}  // namespace
}  // namespace hive::http
