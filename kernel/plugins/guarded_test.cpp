// The guard around calls of the kinds that have no fallback: storage, transport, engine.
#include <gtest/gtest.h>

#include "plugins/instance.hpp"
#include "plugins/recording_services.hpp"

namespace hive::plugins {
namespace {

// Who was on the stack when a call arrived.
std::string seen;
void look() { seen = on_stack == nullptr ? "nobody" : std::string(on_stack->component.data()) + " " + on_stack->instance.data(); }

int thing;
hive_status create(const hive_host *, const hive_config *, const hive_error_sink *, void **self) noexcept { return *self = &thing, HIVE_OK; }
void destroy(void *) noexcept {}

const hive_storage_vtable store{
    sizeof(hive_storage_vtable), 0,
    [](void *self, const hive_error_sink *) noexcept -> hive_status { return look(), self == &thing ? HIVE_OK : HIVE_E_INTERNAL; },
    [](void *) noexcept { look(); },
    [](void *, hive_bytes key, uint64_t, const hive_visitor *) noexcept -> hive_status {
      if (key.len == 0) abort();
      return HIVE_NOT_FOUND;
    },
    [](void *, hive_bytes, uint64_t, const hive_visitor *) noexcept -> hive_status { return HIVE_E_TIMEOUT; },
    [](void *, hive_write *const *, size_t, uint64_t, const hive_error_sink *) noexcept -> hive_status { return HIVE_OK; },
    nullptr, nullptr};

// Raises its events from pump, and looks who is on the stack after each.
hive_transport_setup started;
const hive_transport_vtable pipe{
    sizeof(hive_transport_vtable), 0,
    [](void *, const hive_transport_setup *setup, const hive_error_sink *) noexcept -> hive_status { return started = *setup, HIVE_OK; },
    [](void *, hive_str, const hive_text_sink *, const hive_error_sink *) noexcept -> hive_status { return HIVE_E_UNAVAILABLE; },
    [](void *, hive_str, hive_peer *out, const hive_error_sink *) noexcept -> hive_status { return *out = 7, HIVE_OK; },
    [](void *) noexcept -> int { return 42; },
    [](void *, uint32_t, uint64_t, uint64_t *wake) noexcept -> hive_status {
      const hive_transport_events &e = *started.events;
      const uint8_t key[32] = {};
      e.on_peer(e.ctx, 7, key, HIVE_STR("there"));
      e.on_message(e.ctx, 7, nullptr);
      e.on_writable(e.ctx, 7);
      e.on_lost(e.ctx, 7, HIVE_LOST_CLOSED, HIVE_STR("bye"));
      look();
      return *wake = 9, HIVE_OK;
    },
    [](void *, hive_peer, const hive_bytes *, size_t count) noexcept -> hive_status { return count == 0 ? HIVE_E_ARGUMENT : HIVE_FULL; },
    [](void *, hive_peer, uint32_t) noexcept {},
    [](void *, const uint8_t *, size_t) noexcept -> hive_status { return HIVE_OK; },
    [](void *, uint32_t) noexcept {}};

const hive_engine_description described{};
const hive_engine_vtable codec{
    sizeof(hive_engine_vtable), 0,
    [](void *) noexcept -> const hive_engine_description * { return look(), &described; },
    [](void *, uint32_t, uint32_t, hive_bytes, const hive_page_sink *) noexcept -> hive_status { return HIVE_E_CORRUPT; },
    [](void *, uint32_t, const hive_header *, size_t, hive_bytes, hive_answer_class *) noexcept -> hive_status { return HIVE_OK; }};

hive_component component_of(uint32_t kind, const void *calls) {
  return {sizeof(hive_component), kind, 0, 0, HIVE_STR("sample"), HIVE_STR("1"), HIVE_STR("test"), {}, nullptr, create, destroy, calls};
}
const hive_component parts[] = {component_of(HIVE_KIND_STORAGE, &store), component_of(HIVE_KIND_TRANSPORT, &pipe), component_of(HIVE_KIND_ENGINE, &codec)};
const hive_component *const list[] = {&parts[0], &parts[1], &parts[2]};
const hive_plugin table{sizeof(hive_plugin), HIVE_ABI_MAJOR, HIVE_ABI_MINOR, 3, 0, HIVE_STR("t"), HIVE_STR("1"), HIVE_STR("v"), HIVE_STR("l"), list};

class guarded_calls_of : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(registry.add(&table, "tests").ok()); }
  std::unique_ptr<instance> make(uint32_t kind) {
    auto i = instance::make(registry, *registry.find(kind, "sample"), {"here", "", "", {}}, services);
    EXPECT_TRUE(i.ok()) << i.why().text();
    return std::move(*i);
  }
  component_registry registry;
  recording_services services;
};

TEST_F(guarded_calls_of, a_storage_are_named_counted_and_open_no_circuit) {
  auto i = make(HIVE_KIND_STORAGE);
  const auto calls = i->guarded_storage();
  EXPECT_EQ(calls.table->open(calls.self, nullptr), HIVE_OK);
  EXPECT_EQ(seen, "storage/sample here");
  EXPECT_EQ(on_stack, nullptr);
  EXPECT_EQ(calls.table->get(calls.self, {reinterpret_cast<const uint8_t *>("k"), 1}, 0, nullptr), HIVE_NOT_FOUND);
  for (int k = 0; k < 20; ++k) EXPECT_EQ(calls.table->scan(calls.self, {}, 0, nullptr), HIVE_E_TIMEOUT);
  EXPECT_EQ(calls.table->write(calls.self, nullptr, 0, 0, nullptr), HIVE_OK);
  EXPECT_EQ(calls.table->sweep(calls.self, 0), HIVE_OK) << "it has none";
  hive_storage_stats out{};
  EXPECT_EQ(calls.table->stats(calls.self, &out), HIVE_E_UNSUPPORTED) << "nor these";
  calls.table->close(calls.self);
  const auto stats = i->stats().read();
  EXPECT_EQ(stats.calls, 24u);
  EXPECT_EQ(stats.failures, 20u);
  EXPECT_EQ(stats.sampled, 1u);
  EXPECT_EQ(stats.last_error, "scan: status " + std::to_string(HIVE_E_TIMEOUT));
  EXPECT_FALSE(i->breaker().open());
}

TEST_F(guarded_calls_of, a_transport_leave_the_kernels_own_work_out) {
  auto i = make(HIVE_KIND_TRANSPORT);
  const auto calls = i->guarded_transport();
  static std::vector<std::string> events;
  events.clear();
  static const auto noted = [](std::string what) { look(), events.push_back(what + " " + seen); };
  hive_transport_events to{sizeof to, 0, &events, {}, {}, {}, {}};
  to.on_peer = [](void *ctx, hive_peer p, const uint8_t *, hive_str) noexcept { if (ctx == &events && p == 7) noted("peer"); };
  to.on_message = [](void *, hive_peer, const hive_message *) noexcept { noted("message"); };
  to.on_writable = [](void *, hive_peer) noexcept { noted("writable"); };
  to.on_lost = [](void *, hive_peer, int32_t reason, hive_str) noexcept { noted("lost " + std::to_string(reason)); };
  hive_transport_setup setup{};
  setup.struct_size = sizeof setup;
  setup.workers = 3;
  setup.events = &to;
  EXPECT_EQ(calls.table->start(calls.self, &setup, nullptr), HIVE_OK);
  EXPECT_EQ(started.workers, 3u);
  uint64_t wake = 0;
  EXPECT_EQ(calls.table->pump(calls.self, 1, 1, &wake), HIVE_OK);
  EXPECT_EQ(wake, 9u);
  EXPECT_EQ(events, (std::vector<std::string>{"peer nobody", "message nobody", "writable nobody", "lost 1 nobody"}));
  seen.clear();
  EXPECT_EQ(calls.table->pump(calls.self, 1, 1, &wake), HIVE_OK);
  EXPECT_EQ(seen, "transport/sample here") << "the plugin's own work goes on after an event";
  hive_peer peer = 0;
  EXPECT_EQ(calls.table->connect(calls.self, HIVE_STR("x"), &peer, nullptr), HIVE_OK);
  EXPECT_EQ(peer, 7u);
  EXPECT_EQ(calls.table->fd(calls.self), 42);
  const hive_bytes part{};
  EXPECT_EQ(calls.table->send(calls.self, 7, &part, 1), HIVE_FULL) << "no failure";
  EXPECT_EQ(calls.table->send(calls.self, 7, &part, 0), HIVE_E_ARGUMENT);
  EXPECT_EQ(calls.table->listen(calls.self, HIVE_STR("x"), nullptr, nullptr), HIVE_E_UNAVAILABLE);
  EXPECT_EQ(calls.table->set_denied(calls.self, nullptr, 0), HIVE_OK);
  calls.table->close_peer(calls.self, 7, 0);
  calls.table->stop(calls.self, 0);
  const auto stats = i->stats().read();
  EXPECT_EQ(stats.calls, 11u);
  EXPECT_EQ(stats.failures, 2u);
  EXPECT_EQ(on_stack, nullptr);
}

TEST_F(guarded_calls_of, an_engine_are_named_and_counted) {
  auto i = make(HIVE_KIND_ENGINE);
  const auto calls = i->guarded_engine();
  EXPECT_EQ(calls.table->describe(calls.self), &described);
  EXPECT_EQ(seen, "engine/sample here");
  EXPECT_EQ(calls.table->parse_page(calls.self, 0, 200, {}, nullptr), HIVE_E_CORRUPT);
  EXPECT_EQ(calls.table->classify(calls.self, 500, nullptr, 0, {}, nullptr), HIVE_OK);
  EXPECT_EQ(i->stats().read().calls, 3u);
  EXPECT_EQ(i->stats().read().failures, 1u);
}

TEST_F(guarded_calls_of, a_component_stay_counted_when_its_instances_are_gone) {
  for (int k = 0; k < 3; ++k) {
    auto i = make(HIVE_KIND_STORAGE);
    const auto calls = i->guarded_storage();
    calls.table->scan(calls.self, {}, 0, nullptr);
    EXPECT_EQ(registry.totals().at({HIVE_KIND_STORAGE, "sample"}).calls, k + 1u);
  }
  const auto totals = registry.totals();
  EXPECT_EQ(totals.at({HIVE_KIND_STORAGE, "sample"}).calls, 3u);
  EXPECT_EQ(totals.at({HIVE_KIND_STORAGE, "sample"}).failures, 3u);
  EXPECT_EQ(totals.at({HIVE_KIND_STORAGE, "sample"}).sampled, 3u);
  EXPECT_FALSE(totals.contains({HIVE_KIND_ENGINE, "sample"}));
}

TEST_F(guarded_calls_of, a_storage_that_crash_leave_its_name) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto i = make(HIVE_KIND_STORAGE);
  EXPECT_DEATH(
      {
        install_crash_handler();
        const auto calls = i->guarded_storage();
        calls.table->get(calls.self, {}, 0, nullptr);
      },
      "crashed inside plugin component storage/sample, instance here");
}

}  // namespace
}  // namespace hive::plugins
