// What a listener with TLS shows, asks for and refuses. That its connections otherwise do what plain ones do: server_test.cpp.
#include "http/tls_server.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <memory>
#include <thread>

#include "http/server_fixture.hpp"

namespace hive::http {
namespace {

using test::own_certificate;
using test::tls_wire;
using test::tls_wishes;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class tls_server_test : public server_bed {
 protected:
  tls_server_test() { over_tls_ = true; }
  // A connection with what it wore, which lives as long.
  struct secured {
    raw_socket socket;
    tls_wire *tls;
    // Whether the server takes a request: in TLS 1.3 a client hears of its certificate's refusal after its handshake only.
    bool served() {
      return tls->good && socket.send(get("/hello")) && socket.until("hello").find("200 OK") != std::string::npos;
    }
  };
  secured open(tls_wishes w = {}) {
    secured s{raw_socket::to(port_), nullptr};
    auto layer = std::make_unique<tls_wire>(s.socket.fd(), w);
    s.tls = layer.get();
    s.socket.wear(std::move(layer));
    return s;
  }
  void use(const tls_files &files) {
    auto made = tls_identity::load(files);
    ASSERT_TRUE(made) << made.why().text();
    thread_.on_loop([&] { server_->use_tls(*made); });
  }
};

TEST_F(tls_server_test, speaks_1_2_and_1_3_with_aead_ciphers_and_nothing_older) {
  start();
  const struct {
    const char *what;
    tls_wishes wishes;
    bool good;
  } cases[] = {{"TLSv1.3", {&mine_.certificate}, true},
               {"TLSv1.2", {.trusted = &mine_.certificate, .most = TLS1_2_VERSION}, true},
               {"TLSv1.1", {.least = TLS1_VERSION, .most = TLS1_1_VERSION}, false},
               {"no AEAD", {.most = TLS1_2_VERSION, .ciphers = "ECDHE+AES128+SHA256:!AESGCM"}, false}};
  uint64_t good = 0, bad = 0;
  for (const auto &c : cases) {
    auto s = open(c.wishes);
    EXPECT_EQ(s.served(), c.good) << c.what;
    if (c.good) {
      EXPECT_EQ(s.tls->version(), c.what);
    }
    ++(c.good ? good : bad);
  }
  EXPECT_EQ(counted(&server_counters::handshakes, good), good);
  EXPECT_EQ(counted(&server_counters::handshakes_failed, bad), bad);
  tls_files newest = mine_.files;
  newest.only_1_3 = true;
  use(newest);
  EXPECT_FALSE(open({.most = TLS1_2_VERSION}).served());
  EXPECT_TRUE(open().served());
}

TEST_F(tls_server_test, says_http_1_1_to_who_asks_and_refuses_who_speaks_only_something_else) {
  start();
  using namespace std::string_literals;
  const struct {
    std::string offered, chosen;
    bool good;
  } cases[] = {{"", "", true}, {"\x08http/1.1", "http/1.1", true}, {"\x02h2\x08http/1.1", "http/1.1", true}, {"\x02h2", "", false}};
  for (const auto &c : cases) {
    auto s = open({.protocols = c.offered});
    EXPECT_EQ(s.served(), c.good) << c.offered;
    if (c.good) {
      EXPECT_EQ(s.tls->protocol(), c.chosen);
    }
  }
}

// Naive variant: the handshake fails without a word, and whoever forgot the s sees a cut connection.
TEST_F(tls_server_test, tells_plain_http_what_is_wrong) {
  start();
  raw_socket plain = raw_socket::to(port_);
  plain.send(get("/hello"));
  const std::string answer = plain.until_end();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(answer, HasSubstr("https://"));
  EXPECT_FALSE(plain.was_reset());
  raw_socket large = raw_socket::to(port_);
  large.send(post("/echo", std::string(1 << 20, 'x')));
  EXPECT_THAT(large.until_end(), StartsWith("HTTP/1.1 400 "));
}

TEST_F(tls_server_test, a_handshake_has_its_time_and_holds_nobody_up) {
  server_limits limits;
  limits.handshake_timeout_ns = ns_per_s;  // also of one that does its handshake meanwhile
  start(limits);
  raw_socket silent = raw_socket::to(port_), half = raw_socket::to(port_), junk = raw_socket::to(port_);
  half.send(std::string("\x16\x03\x01\x02\x00\x01\x00", 7));
  junk.send(std::string(1000, 'x'));
  EXPECT_TRUE(open().served()) << "meanwhile";
  for (raw_socket *s : {&silent, &half}) {
    EXPECT_EQ(s->until_end(), "");
    EXPECT_TRUE(s->ended());
  }
  junk.until_end();
  EXPECT_TRUE(junk.ended());
  EXPECT_EQ(counted(&server_counters::handshake_timeouts, 2), 2u);
  EXPECT_EQ(counted(&server_counters::handshakes_failed, 1), 1u);
}

// The first bytes that a client would send.
std::string client_hello() {
  SSL_CTX *const context = SSL_CTX_new(TLS_client_method());
  SSL *const session = SSL_new(context);
  BIO *const out = BIO_new(BIO_s_mem());
  SSL_set_bio(session, BIO_new(BIO_s_mem()), out);
  SSL_set_tlsext_host_name(session, "localhost");
  SSL_connect(session);
  char *bytes = nullptr;
  const long size = BIO_get_mem_data(out, &bytes);
  std::string hello(bytes, static_cast<size_t>(size));
  SSL_free(session);
  SSL_CTX_free(context);
  return hello;
}

TEST_F(tls_server_test, a_hello_that_is_cut_or_changed_anywhere_harms_nobody) {
  start();
  const std::string hello = client_hello();
  ASSERT_GT(hello.size(), 100u);
  for (size_t at = 0; at < hello.size(); ++at) {
    raw_socket cut = raw_socket::to(port_), changed = raw_socket::to(port_);
    cut.send(hello.substr(0, at));
    std::string other = hello;
    other[at] = static_cast<char>(other[at] ^ 0xff);
    changed.send(other);
    if (at % 3 == 0) cut.reset();
  }
  EXPECT_EQ(counted(&server_counters::open, 0), 0u);
  EXPECT_TRUE(open().served());
}

TEST_F(tls_server_test, close_idle_ends_handshakes_too) {
  start();
  raw_socket silent = raw_socket::to(port_);
  ASSERT_EQ(counted(&server_counters::open, 1), 1u);
  thread_.on_loop([&] { server_->close_idle(); });
  EXPECT_EQ(silent.until_end(), "");
  EXPECT_TRUE(silent.ended());
}

TEST_F(tls_server_test, the_end_is_said_unless_the_answer_was_cut) {
  start();
  const struct {
    const char *wire;
    bool said;
  } cases[] = {{"GET /hello HTTP/1.0\r\n\r\n", true}, {"GET /stream HTTP/1.0\r\n\r\n", true}, {"GET /cut HTTP/1.0\r\n\r\n", false}};
  for (const auto &c : cases) {
    auto s = open();
    s.socket.send(c.wire);
    EXPECT_THAT(s.socket.until_end(), StartsWith("HTTP/1.1 200 ")) << c.wire;
    EXPECT_TRUE(s.socket.ended());
    EXPECT_EQ(s.tls->said_goodbye, c.said) << c.wire << ": a body until the close is whole only if the close was meant";
  }
}

TEST_F(tls_server_test, new_keys_in_the_middle_of_a_connection_are_taken) {
  start();
  auto s = open();
  for (int i = 0; i < 5; ++i) {
    s.tls->renew_keys();
    s.socket.send(post("/echo", std::string(100'000, 'x') + "end"));
    EXPECT_THAT(s.socket.until("xend"), StartsWith("HTTP/1.1 200 ")) << i;
  }
}

// All of it is in the socket before the server looks. Naive variant: what one call left there is waited for like what has yet to come.
TEST_F(tls_server_test, a_request_behind_records_without_bytes_is_served) {
  start();
  auto s = open();
  ASSERT_TRUE(s.served());
  thread_.on_loop([&] {
    s.tls->renew_keys_idly(200);
    s.socket.send(get("/hello"));
  });
  EXPECT_THAT(s.socket.until("hello"), StartsWith("HTTP/1.1 200 "));
}

// Naive variant: it was read with the bytes before it, so no socket tells of it, and the engine works for nobody.
TEST_F(tls_server_test, an_end_that_was_read_along_with_bytes_is_noticed) {
  start();
  auto s = open();
  s.socket.send(get("/hold"));
  ASSERT_TRUE(thread_.wait_for("held /hold"));
  thread_.on_loop([&] {
    s.socket.send(std::string(32 * 1024, 'x'));  // two full records, of which the second fills no buffer
    s.socket.half_close();
  });
  EXPECT_TRUE(thread_.wait_for("/hold gone left"));
}

TEST_F(tls_server_test, bytes_that_are_no_tls_end_the_connection_and_its_request) {
  start();
  auto s = open();
  s.socket.send(get("/hold"));
  ASSERT_TRUE(thread_.wait_for("held /hold"));
  const std::string junk(100, '\x55');
  ASSERT_EQ(::send(s.socket.fd(), junk.data(), junk.size(), MSG_NOSIGNAL), 100);
  EXPECT_TRUE(thread_.wait_for("/hold gone failed"));
}

TEST_F(tls_server_test, a_new_certificate_is_for_new_connections_and_disturbs_none) {
  start();
  auto before = open({&mine_.certificate});
  ASSERT_TRUE(before.served());
  auto streaming = open({&mine_.certificate});
  streaming.socket.send(get("/hold"));
  ASSERT_TRUE(thread_.wait_for("held /hold"));
  const test_identity next;
  ASSERT_NE(next.certificate.serial(), mine_.certificate.serial());
  use(next.files);
  auto after = open({&next.certificate});
  EXPECT_TRUE(after.served());
  EXPECT_EQ(after.tls->serial(), next.certificate.serial());
  EXPECT_TRUE(before.served());
  thread_.on_loop([&] { script_.held["/hold"]->respond({200, {}}, "held on"); });
  EXPECT_THAT(streaming.socket.until("held on"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(tls_server_test, a_listener_that_wants_client_certificates_serves_nobody_without_a_good_one) {
  start();
  const own_certificate authority("DNS:authority"), stranger("DNS:stranger");
  const own_certificate good("DNS:operator", &authority), foreign("DNS:operator", &stranger);
  const own_certificate old("DNS:operator", &authority, {-7200, -3600});
  const test_folder folder;
  tls_files files = mine_.files;
  files.client_ca = folder.at("ca.pem");
  authority.write(files.client_ca);
  use(files);
  const struct {
    const char *what;
    const own_certificate *shown;
    bool good;
  } cases[] = {{"none", nullptr, false}, {"of the authority", &good, true}, {"of another", &foreign, false}, {"its own", &stranger, false},
               {"expired", &old, false}};
  for (const auto &c : cases)
    for (const int most : {TLS1_2_VERSION, TLS1_3_VERSION})
      EXPECT_EQ(open({.trusted = &mine_.certificate, .shown = c.shown, .most = most}).served(), c.good) << c.what << most;
}

// A channel and its client, with nothing in between that reads or writes by itself.
class tls_channel_test : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends_), 0);
    channel_ = std::make_unique<tls_channel>(mine_.load(), ends_[0]);
    std::thread serving([this] {
      const auto waits = [](tls_step s) { return s == tls_step::wants_read || s == tls_step::wants_write; };
      for (tls_progress p = channel_->handshake(); waits(p.step); p = channel_->handshake()) {
        pollfd socket{ends_[0], static_cast<short>(p.step == tls_step::wants_write ? POLLOUT : POLLIN), 0};
        if (::poll(&socket, 1, test::patience_ms) != 1) break;
      }
    });
    client_ = std::make_unique<tls_wire>(ends_[1], tls_wishes{});
    serving.join();
    ASSERT_TRUE(client_->good);
  }
  ~tls_channel_test() override {
    channel_.reset();
    client_.reset();
    for (const int end : ends_) ::close(end);
  }
  int unread() const {
    int n = 0;
    EXPECT_EQ(::ioctl(ends_[0], FIONREAD, &n), 0);
    return n;
  }
  tls_progress read_one() { return channel_->read(&byte_, 1); }
  bool client_gets_one() { return client_->receive(&byte_, 1) == 1; }

  const test_identity mine_;
  int ends_[2] = {-1, -1};
  char byte_ = 0;
  std::unique_ptr<tls_channel> channel_;
  std::unique_ptr<tls_wire> client_;
};

// Naive variant: OpenSSL reads on as long as there is something, and one client has a worker for itself.
TEST_F(tls_channel_test, a_call_ends_before_the_records_without_bytes_do_and_who_sends_nothing_else_is_cut) {
  client_->renew_keys_idly(100);
  tls_progress p = read_one();
  EXPECT_EQ(p.step, tls_step::wants_read);
  EXPECT_GT(unread(), 0) << "others have their turn";
  ASSERT_EQ(client_->send("x", 1), 1);
  for (int calls = 0; calls < 10 && p.step == tls_step::wants_read; ++calls) p = read_one();
  EXPECT_EQ(p.step, tls_step::done);
  EXPECT_EQ(p.bytes, 1u);
  for (int calls = 0; calls < 200 && p.step != tls_step::failed; ++calls) {
    if (unread() == 0) client_->renew_keys_idly(100);
    p = read_one();
  }
  EXPECT_EQ(p.step, tls_step::failed);
}

// Naive variant: OpenSSL says that it was sent, so nobody sends it.
TEST_F(tls_channel_test, a_goodbye_that_did_not_fit_is_sent_later) {
  ASSERT_EQ(channel_->write("x").step, tls_step::done);
  ASSERT_TRUE(client_gets_one()) << "and what followed the handshake";
  while (channel_->write("x").step == tls_step::done) {
  }
  ASSERT_TRUE(client_gets_one());
  ASSERT_EQ(channel_->write("x").step, tls_step::done) << "the place of one record is free, and taken by the one that waited";
  EXPECT_EQ(channel_->say_goodbye().step, tls_step::wants_write);
  EXPECT_EQ(channel_->say_goodbye().step, tls_step::wants_write);
  while (client_gets_one()) {
  }
  EXPECT_FALSE(client_->said_goodbye);
  EXPECT_EQ(channel_->say_goodbye().step, tls_step::done);
  EXPECT_FALSE(client_gets_one());
  EXPECT_TRUE(client_->said_goodbye);
}

class tls_identity_test : public testing::Test {
 protected:
  status refused(const tls_files &files) {
    const auto made = tls_identity::load(files);
    return made ? status() : made.why();
  }
  const test_identity mine_;
};

TEST_F(tls_identity_test, what_cannot_serve_is_refused_with_its_file_and_the_reason) {
  const test_identity other;
  const std::string text = mine_.folder.at("text"), locked = mine_.folder.at("locked.pem"), missing = mine_.folder.at("missing");
  std::ofstream(text) << "no PEM at all\n";
  mine_.certificate.write_key(locked, "a passphrase");
  const struct {
    tls_files files;
    std::string where, why;
  } cases[] = {{{missing, mine_.files.key, {}}, missing, "cannot be opened"},
               {{mine_.files.certificate, missing, {}}, missing, "cannot be opened"},
               {{text, mine_.files.key, {}}, text, "expected a PEM file"},
               {{mine_.files.certificate, text, {}}, text, "without a passphrase"},
               {{mine_.files.certificate, locked, {}}, locked, "without a passphrase"},
               {{mine_.files.certificate, mine_.files.certificate, {}}, mine_.files.certificate, "no private key"},
               {{mine_.files.certificate, other.files.key, {}}, other.files.key, "is not the key of the certificate in " + mine_.files.certificate},
               {{mine_.folder.path().string(), mine_.files.key, {}}, mine_.folder.path().string(), "not a regular file"},
               {{"/dev/zero", mine_.files.key, {}}, "/dev/zero", "not a regular file"},
               {{mine_.files.certificate, mine_.files.key, text}, text, "no certificate authorities"}};
  for (const auto &c : cases) {
    const status s = refused(c.files);
    EXPECT_FALSE(s) << c.where << c.why;
    EXPECT_EQ(s.path(), c.where);
    EXPECT_THAT(s.message(), HasSubstr(c.why)) << c.where;
  }
}

TEST_F(tls_identity_test, what_looks_wrong_is_warned_about) {
  EXPECT_THAT(mine_.load()->warnings(), IsEmpty());
  EXPECT_FALSE(mine_.load()->expired());
  const int64_t hour = mine_.load()->expires_unix_s() - static_cast<int64_t>(std::time(nullptr));
  EXPECT_TRUE(hour > 3500 && hour <= 3600) << hour;
  const struct {
    own_certificate::life valid;
    mode_t mode;
    const char *said;
    bool expired;
  } cases[] = {{{-7200, -60}, 0600, "expired at", true}, {{3600, 7200}, 0600, "not valid before", false}, {{}, 0640, "chmod 600", false},
               {{}, 0604, "chmod 600", false}};
  for (const auto &c : cases) {
    const own_certificate shown("DNS:localhost", nullptr, c.valid);
    shown.write(mine_.files.certificate);
    shown.write_key(mine_.files.key);
    ::chmod(mine_.files.key.c_str(), c.mode);
    const auto made = tls_identity::load(mine_.files);
    ASSERT_TRUE(made) << made.why().text();
    ASSERT_EQ((*made)->warnings().size(), 1u) << c.said;
    EXPECT_THAT((*made)->warnings().front(), HasSubstr(c.said));
    EXPECT_EQ((*made)->expired(), c.expired);
  }
}

// Naive variant: the first certificate alone is looked at, and the one it hangs on expires unnoticed.
TEST_F(tls_identity_test, the_chain_expires_with_its_first) {
  const own_certificate authority("DNS:authority", nullptr, {-3600, 60});
  const own_certificate leaf("DNS:localhost", &authority);
  leaf.write(mine_.files.certificate);
  leaf.write_key(mine_.files.key);
  const std::string extra = mine_.folder.at("authority.pem");
  authority.write(extra);
  std::ofstream(mine_.files.certificate, std::ios::app) << std::ifstream(extra).rdbuf();
  EXPECT_LE(mine_.load()->expires_unix_s(), static_cast<int64_t>(std::time(nullptr)) + 60);
}

}  // namespace
}  // namespace hive::http
