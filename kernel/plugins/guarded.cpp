// The tables of calls with a frame around each (instance.hpp, guarded_*). `self` is the instance.
#include "plugins/instance.hpp"

namespace hive::plugins {

struct instance::guarded {
  static instance &of(void *self) { return *static_cast<instance *>(self); }

  static hive_status judged(instance &i, const char *name, hive_status s) {
    if (s < 0) i.stats_.failed(std::string(name) + ": status " + std::to_string(s), false);
    return s;
  }
  template <class F>
  static hive_status framed(instance &i, const char *name, F &&f) {
    hive_status s;
    {
      const call_frame frame(i);
      s = f();
    }
    return judged(i, name, s);
  }

  // ---- storage ----
  static hive_status open(void *self, const hive_error_sink *err) noexcept {
    instance &i = of(self);
    return framed(i, "open", [&] { return i.storage()->open(i.self_, err); });
  }
  static void close(void *self) noexcept {
    instance &i = of(self);
    const call_frame frame(i);
    i.storage()->close(i.self_);
  }
  static hive_status get(void *self, hive_bytes key, uint64_t deadline, const hive_visitor *visitor) noexcept {
    instance &i = of(self);
    return framed(i, "get", [&] { return i.storage()->get(i.self_, key, deadline, visitor); });
  }
  static hive_status scan(void *self, hive_bytes prefix, uint64_t deadline, const hive_visitor *visitor) noexcept {
    instance &i = of(self);
    return framed(i, "scan", [&] { return i.storage()->scan(i.self_, prefix, deadline, visitor); });
  }
  static hive_status write(void *self, hive_write *const *ops, size_t count, uint64_t deadline, const hive_error_sink *err) noexcept {
    instance &i = of(self);
    return framed(i, "write", [&] { return i.storage()->write(i.self_, ops, count, deadline, err); });
  }
  // The two optional ones are always there: without the plugin's nothing needs sweeping, and nothing can be told.
  static hive_status sweep(void *self, uint64_t deadline) noexcept {
    instance &i = of(self);
    if (i.storage()->sweep == nullptr) return HIVE_OK;
    return framed(i, "sweep", [&] { return i.storage()->sweep(i.self_, deadline); });
  }
  static hive_status stats(void *self, hive_storage_stats *out) noexcept {
    instance &i = of(self);
    if (i.storage()->stats == nullptr) return HIVE_E_UNSUPPORTED;
    return framed(i, "stats", [&] { return i.storage()->stats(i.self_, out); });
  }

  // ---- transport ----
  static hive_status start(void *self, const hive_transport_setup *setup, const hive_error_sink *err) noexcept {
    instance &i = of(self);
    i.kernel_events_ = setup->events;
    i.events_ = {sizeof(hive_transport_events), 0, self, on_peer, on_message, on_writable, on_lost};
    hive_transport_setup ours = *setup;
    ours.events = &i.events_;
    return framed(i, "start", [&] { return i.transport()->start(i.self_, &ours, err); });
  }
  static hive_status listen(void *self, hive_str address, const hive_text_sink *bound, const hive_error_sink *err) noexcept {
    instance &i = of(self);
    return framed(i, "listen", [&] { return i.transport()->listen(i.self_, address, bound, err); });
  }
  static hive_status connect(void *self, hive_str address, hive_peer *out, const hive_error_sink *err) noexcept {
    instance &i = of(self);
    return framed(i, "connect", [&] { return i.transport()->connect(i.self_, address, out, err); });
  }
  static int fd(void *self) noexcept {
    instance &i = of(self);
    const call_frame frame(i);
    return i.transport()->fd(i.self_);
  }
  // Not timed: what the router does with what came would be counted in.
  static hive_status pump(void *self, uint32_t messages, uint64_t ns, uint64_t *next_wake_ns) noexcept {
    instance &i = of(self);
    hive_status s;
    {
      const call_frame frame(i, call_frame::clock::never);
      s = i.transport()->pump(i.self_, messages, ns, next_wake_ns);
    }
    return judged(i, "pump", s);
  }
  static hive_status send(void *self, hive_peer peer, const hive_bytes *parts, size_t count) noexcept {
    instance &i = of(self);
    return framed(i, "send", [&] { return i.transport()->send(i.self_, peer, parts, count); });
  }
  static void close_peer(void *self, hive_peer peer, uint32_t linger_ms) noexcept {
    instance &i = of(self);
    const call_frame frame(i);
    i.transport()->close_peer(i.self_, peer, linger_ms);
  }
  static hive_status set_denied(void *self, const uint8_t *keys, size_t count) noexcept {
    instance &i = of(self);
    return framed(i, "set_denied", [&] { return i.transport()->set_denied(i.self_, keys, count); });
  }
  static void stop(void *self, uint32_t linger_ms) noexcept {
    instance &i = of(self);
    const call_frame frame(i, call_frame::clock::never);
    i.transport()->stop(i.self_, linger_ms);
  }

  // Events run kernel code: whatever happens there is not the plugin's.
  class back_in_the_kernel {
   public:
    back_in_the_kernel() : inner_(std::exchange(on_stack, nullptr)) {}
    ~back_in_the_kernel() { on_stack = inner_; }
    back_in_the_kernel(const back_in_the_kernel &) = delete;
    back_in_the_kernel &operator=(const back_in_the_kernel &) = delete;

   private:
    const crash_marker *inner_;
  };
  static void on_peer(void *ctx, hive_peer peer, const uint8_t key[32], hive_str address) noexcept {
    const back_in_the_kernel outside;
    const hive_transport_events &to = *of(ctx).kernel_events_;
    to.on_peer(to.ctx, peer, key, address);
  }
  static void on_message(void *ctx, hive_peer peer, const hive_message *message) noexcept {
    const back_in_the_kernel outside;
    const hive_transport_events &to = *of(ctx).kernel_events_;
    to.on_message(to.ctx, peer, message);
  }
  static void on_writable(void *ctx, hive_peer peer) noexcept {
    const back_in_the_kernel outside;
    const hive_transport_events &to = *of(ctx).kernel_events_;
    to.on_writable(to.ctx, peer);
  }
  static void on_lost(void *ctx, hive_peer peer, int32_t reason, hive_str text) noexcept {
    const back_in_the_kernel outside;
    const hive_transport_events &to = *of(ctx).kernel_events_;
    to.on_lost(to.ctx, peer, reason, text);
  }

  // ---- engine ----
  static const hive_engine_description *describe(void *self) noexcept {
    instance &i = of(self);
    const call_frame frame(i);
    return i.engine()->describe(i.self_);
  }
  static hive_status parse_page(void *self, uint32_t page, uint32_t status, hive_bytes body, const hive_page_sink *sink) noexcept {
    instance &i = of(self);
    return framed(i, "parse_page", [&] { return i.engine()->parse_page(i.self_, page, status, body, sink); });
  }
  static hive_status classify(void *self, uint32_t status, const hive_header *headers, size_t count, hive_bytes body,
                              hive_answer_class *out) noexcept {
    instance &i = of(self);
    return framed(i, "classify", [&] { return i.engine()->classify(i.self_, status, headers, count, body, out); });
  }

  static constexpr hive_storage_vtable storage_calls{sizeof(hive_storage_vtable), 0, open, close, get, scan, write, sweep, stats};
  static constexpr hive_transport_vtable transport_calls{sizeof(hive_transport_vtable), 0, start, listen, connect, fd, pump, send,
                                                         close_peer, set_denied, stop};
  static constexpr hive_engine_vtable engine_calls{sizeof(hive_engine_vtable), 0, describe, parse_page, classify};
};

guarded_calls<hive_storage_vtable> instance::guarded_storage() { return {&guarded::storage_calls, this}; }
guarded_calls<hive_transport_vtable> instance::guarded_transport() { return {&guarded::transport_calls, this}; }
guarded_calls<hive_engine_vtable> instance::guarded_engine() { return {&guarded::engine_calls, this}; }

}  // namespace hive::plugins
