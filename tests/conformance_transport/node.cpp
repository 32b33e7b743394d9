#include "node.hpp"

#include <dlfcn.h>
#include <poll.h>
#include <zmq.h>

#include <algorithm>
#include <cstring>

namespace hive::conformance {

key_pair make_keys() {
  char own[41], secret[41];
  key_pair out;
  EXPECT_EQ(zmq_curve_keypair(own, secret), 0);
  zmq_z85_decode(out.own.data(), own);
  zmq_z85_decode(out.secret.data(), secret);
  return out;
}

const hive_component *load_component(const std::string &path) {
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    ADD_FAILURE() << dlerror();
    return nullptr;
  }
  const auto entry = reinterpret_cast<hive_plugin_entry_fn>(dlsym(library, HIVE_PLUGIN_ENTRY_NAME));
  const hive_plugin *plugin = entry == nullptr ? nullptr : entry();
  return plugin == nullptr || plugin->component_count != 1 ? nullptr : plugin->components[0];
}

uint64_t now_ns() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count());
}

namespace {
void set_error(void *ctx, hive_status, hive_str text) noexcept { static_cast<node *>(ctx)->error.assign(text.ptr, text.len); }
void put_bound(void *ctx, hive_str text) noexcept { static_cast<node *>(ctx)->bound.assign(text.ptr, text.len); }
hive_error_sink sink(node *n) { return {sizeof(hive_error_sink), 0, n, &set_error}; }
}  // namespace

node::node(const hive_component *component, const key_pair &own, std::optional<key> router, const std::string &json)
    : component_(component), table_(static_cast<const hive_transport_vtable *>(component->vtable)) {
  host_.struct_size = sizeof host_;
  host_.abi_major = HIVE_ABI_MAJOR;
  host_.abi_minor = HIVE_ABI_MINOR;
  host_.ctx = this;
  host_.log = [](const hive_host *h, int32_t, hive_str line) noexcept {
    auto *n = static_cast<node *>(h->ctx);
    const std::lock_guard lock(n->told_mutex_);
    n->log_.emplace_back(line.ptr, line.len);
  };
  host_.metric_register = [](const hive_host *h, int32_t, hive_str name, hive_str) noexcept {
    auto *n = static_cast<node *>(h->ctx);
    const std::lock_guard lock(n->told_mutex_);
    n->metrics_.emplace_back(std::string(name.ptr, name.len), 0);
    return static_cast<hive_metric>(n->metrics_.size());
  };
  host_.metric_add = [](const hive_host *h, hive_metric m, double delta) noexcept {
    auto *n = static_cast<node *>(h->ctx);
    const std::lock_guard lock(n->told_mutex_);
    n->metrics_[m - 1].second += delta;
  };
  host_.now_ns = [](const hive_host *) noexcept { return now_ns(); };
  host_.request_pump = [](const hive_host *h) noexcept { static_cast<node *>(h->ctx)->wanted_ = true; };
  events_.struct_size = sizeof events_;
  events_.ctx = this;
  events_.on_peer = [](void *ctx, hive_peer p, const uint8_t *k, hive_str address) noexcept {
    auto *n = static_cast<node *>(ctx);
    EXPECT_TRUE(n->in_pump_);
    seen_peer s{p, {}, std::string(address.ptr, address.len)};
    std::memcpy(s.from.data(), k, s.from.size());
    n->peers.push_back(s);
  };
  events_.on_message = [](void *ctx, hive_peer p, const hive_message *m) noexcept {
    auto *n = static_cast<node *>(ctx);
    EXPECT_TRUE(n->in_pump_) << "raised re-entrantly";
    EXPECT_EQ(n->losses_of(p), 0) << "a message after on_lost";
    if (n->on_message)
      n->on_message(p, *m);
    else
      n->messages[p].emplace_back(reinterpret_cast<const char *>(m->bytes.ptr), m->bytes.len);
  };
  events_.on_writable = [](void *ctx, hive_peer p) noexcept { ++static_cast<node *>(ctx)->writable[p]; };
  events_.on_lost = [](void *ctx, hive_peer p, int32_t reason, hive_str text) noexcept {
    auto *n = static_cast<node *>(ctx);
    EXPECT_TRUE(n->in_pump_) << "raised re-entrantly";
    n->losses.push_back({p, reason, std::string(text.ptr, text.len)});
  };
  hive_config config{sizeof(hive_config), 0, HIVE_STR("test"), {json.data(), json.size()}, nullptr};
  const hive_error_sink err = sink(this);
  EXPECT_EQ(component->create(&host_, &config, &err, &self_), HIVE_OK) << error;
  stopped_ = true;
  start(own, router);
}

void node::start(const key_pair &own, std::optional<key> router) {
  const hive_error_sink err = sink(this);
  stopped_ = false;
  hive_transport_setup setup{sizeof(hive_transport_setup), 0, 1, 0, own.secret.data(), own.own.data(), router ? router->data() : nullptr,
                             &events_};
  EXPECT_EQ(table_->start(self_, &setup, &err), HIVE_OK) << error;
}

node::~node() {
  stop(0);
  component_->destroy(self_);
}

hive_status node::listen(const std::string &address) {
  const hive_error_sink err = sink(this);
  const hive_text_sink to{sizeof(hive_text_sink), 0, this, &put_bound};
  return table_->listen(self_, {address.data(), address.size()}, &to, &err);
}

hive_status node::dial(const std::string &address, hive_peer &out) {
  const hive_error_sink err = sink(this);
  return table_->connect(self_, {address.data(), address.size()}, &out, &err);
}

hive_peer node::dial(const std::string &address) {
  hive_peer out = 0;
  EXPECT_EQ(dial(address, out), HIVE_OK) << error;
  EXPECT_NE(out, 0u);
  return out;
}

hive_status node::send(hive_peer p, std::string_view text) {
  // Three parts, one of them empty, so that gathering is exercised by every test.
  const auto *bytes = reinterpret_cast<const uint8_t *>(text.data());
  const size_t half = text.size() / 2;
  const hive_bytes parts[] = {{bytes, half}, {nullptr, 0}, {bytes + half, text.size() - half}};
  return table_->send(self_, p, parts, 3);
}

void node::deny(const std::vector<key> &keys) {
  EXPECT_EQ(table_->set_denied(self_, keys.empty() ? nullptr : keys[0].data(), keys.size()), HIVE_OK);
}

void node::stop(uint32_t linger_ms) {
  if (stopped_) return;
  stopped_ = true;
  in_pump_ = true;
  table_->stop(self_, linger_ms);
  in_pump_ = false;
}

void node::pump(bool told) {
  if (stopped_) return;
  if (!told && !wanted_ && wake_ns_ >= pumped_ns_ + 500'000'000) ++waited_out;
  pumped_ns_ = now_ns();
  wanted_ = false;
  in_pump_ = true;
  wake_ns_ = UINT64_MAX;
  EXPECT_EQ(table_->pump(self_, pump_messages, pump_ns, &wake_ns_), HIVE_OK);
  in_pump_ = false;
}

bool node::due() const { return !stopped_ && (wanted_ || wake_ns_ <= now_ns()); }

int node::losses_of(hive_peer id) const {
  return static_cast<int>(std::count_if(losses.begin(), losses.end(), [id](const seen_loss &l) { return l.id == id; }));
}

const node::seen_loss *node::loss_of(hive_peer id) const {
  const auto found = std::find_if(losses.begin(), losses.end(), [id](const seen_loss &l) { return l.id == id; });
  return found == losses.end() ? nullptr : &*found;
}

bool drive(std::initializer_list<node *> nodes, const std::function<bool()> &done, std::chrono::milliseconds bound) {
  const auto until = std::chrono::steady_clock::now() + bound;
  std::vector<pollfd> fds;
  for (node *n : nodes) fds.push_back({n->fd(), POLLIN, 0});
  while (!done()) {
    if (std::chrono::steady_clock::now() > until) return false;
    uint64_t wake = UINT64_MAX;
    for (node *n : nodes) wake = std::min(wake, n->wake_ns());
    const uint64_t now = now_ns();
    const int wait = wake <= now ? 0 : static_cast<int>(std::min<uint64_t>((wake - now) / 1'000'000 + 1, 100));
    poll(fds.data(), fds.size(), wait);
    size_t i = 0;
    for (node *n : nodes)
      if (const bool told = (fds[i++].revents & POLLIN) != 0; told || n->due()) n->pump(told);
  }
  return true;
}

}  // namespace hive::conformance
