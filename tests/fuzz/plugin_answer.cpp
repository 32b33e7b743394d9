// A strategy and a gate that answer anything, around a pool in any state: the funnel never chooses an agent that a rule keeps out.
#include <mutex>

#include "fuzz.hpp"
#include "routing/fleet_fixture.hpp"
#include "routing/funnel.hpp"
#include "routing/policy_text.hpp"

using namespace hive;
using namespace hive::routing;
using fuzz::must;

namespace {

constexpr uint32_t most_agents = 8;

struct plan {
  uint32_t index = 0, scored = 0;
  hive_status select = HIVE_OK, evaluate = HIVE_OK;
  double score = 0;
  uint32_t verdicts[most_agents] = {};
  bool asked = false, offered = false, usable = true;
} say;

hive_status select(void *, const hive_request *, const hive_pool *p, hive_choice *c) noexcept {
  say.asked = true;
  say.offered = false;
  must(p->candidate_count > 0 && p->candidate_count <= p->count && c->score_count == p->count, "a strategy is asked about somebody");
  for (uint32_t k = 0; k < p->candidate_count; ++k) {
    must(p->candidates[k] < p->count && (k == 0 || p->candidates[k] > p->candidates[k - 1]), "candidates ascend");
    say.offered = say.offered || p->candidates[k] == say.index;
  }
  for (uint32_t i = 0; i < c->score_count; ++i) c->scores[i] = say.score;
  c->scored = say.scored;
  c->index = say.index;
  return say.select;
}
hive_status evaluate(void *, const hive_request *, const hive_pool *p, uint32_t *verdicts) noexcept {
  for (uint32_t i = 0; i < p->count && i < most_agents; ++i) verdicts[i] = say.verdicts[i];
  return say.evaluate;
}

const hive_strategy_vtable strategy_table{sizeof(hive_strategy_vtable), 0, select, nullptr, nullptr, nullptr};
const hive_component strategy_component{sizeof(hive_component), HIVE_KIND_STRATEGY, 0, 0, HIVE_STR("any"), HIVE_STR("1"), HIVE_STR(""),
                                        HIVE_STR("{}"), nullptr, nullptr, nullptr, &strategy_table};
const hive_field limit_field{sizeof(hive_field), HIVE_RULE_THRESHOLD, 0, 0, HIVE_STR("heat"), HIVE_STR("C"), HIVE_STR(""), HIVE_STR("heat_c"), 0, -1};
const hive_field custom_field{sizeof(hive_field), HIVE_RULE_CUSTOM, 0, 0, HIVE_STR("custom"), HIVE_STR(""), HIVE_STR(""), HIVE_STR(""), 0, -1};
const hive_gate_vtable gate_table{sizeof(hive_gate_vtable), 2, nullptr, evaluate, nullptr, nullptr, nullptr};
const hive_component gate_component{sizeof(hive_component), HIVE_KIND_GATE, 0, 0, HIVE_STR("any"), HIVE_STR("1"), HIVE_STR(""), HIVE_STR("{}"),
                                    nullptr, nullptr, nullptr, &gate_table};

struct instance_of_ours final : component_instance {
  void *self() const override { return nullptr; }
  bool begin(uint64_t) override { return say.usable; }
};

struct any_source final : component_source {
  const hive_component *strategy(std::string_view id) const override { return id == "any" ? &strategy_component : nullptr; }
  std::optional<gate_field> field(std::string_view name) const override {
    if (name == "heat") return gate_field{&gate_component, &limit_field, 0};
    if (name == "custom") return gate_field{&gate_component, &custom_field, 1};
    return {};
  }
  std::vector<std::string> strategies() const override { return {"any"}; }
  std::vector<std::string> fields() const override { return {"custom", "heat"}; }
  std::string provider_hint(uint32_t, std::string_view) const override { return {}; }
  result<std::string> complete_options(const hive_component &, const std::string &json) const override { return json; }
  result<std::unique_ptr<component_instance>> create(const hive_component &, const std::string &, const std::string &, const std::string &,
                                                     const custom_rules &) override {
    return std::unique_ptr<component_instance>(new instance_of_ours);
  }
};

any_source &source() {
  static any_source s;
  return s;
}

const policy_document &document(bool exclude_on_error) {
  static const auto make = [](const char *more) {
    auto parsed = parse_policy(std::string("routing_policy: {strategy: any, ") + more + "exclude_if: {heat: {gt: 50}, custom: 1}}", source());
    must(parsed.ok(), "the policy of the target");
    return parsed->document;
  };
  static const auto pass = make(""), exclude = make("on_error: exclude, ");
  return exclude_on_error ? *exclude : *pass;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz::input in(data, size);
  const uint8_t how = in.byte();
  const uint32_t count = in.byte() % (most_agents + 1);
  const bool on_error_exclude = (how & 1) != 0;
  testing::test_fleet fleet;
  const auto pool = fleet.make_pool("m");
  const auto where = std::make_shared<lane>(pool, line_limits{});
  instance_store store(source());
  auto compiled = step::compile(document(on_error_exclude), 0, {source(), store, fleet.columns, where, 3});
  must(compiled.ok(), "the step of the target");
  step &s = **compiled;

  selection sel;
  sel.capability = "llm";
  double heat[most_agents];
  for (uint32_t i = 0; i < count; ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    const uint8_t state = in.byte();
    fleet::agent &a = fleet.add(pool, name, 1 + state % 3, [&](auto &info) {
      if ((state & 4) != 0) info.capability = "embedding";
    });
    for (uint32_t n = 0; n < ((state >> 3) & 3u); ++n) (void)a.slots.try_take();
    pool->refresh(a);
    if ((state & 32) != 0) fleet.set_standing(*pool, name, in.byte());
    heat[i] = in.number();
    fleet.signal(*pool, name, "heat_c", heat[i]);
    if ((state & 64) != 0) sel.failed.push_back(&a);
    if ((state & 128) != 0) sel.avoided.push_back(&a);
  }
  say = {};
  const uint8_t answer = in.byte();
  say.index = answer < 200 ? answer % 16 : answer < 220 ? UINT32_MAX : static_cast<uint32_t>(in.word()) << 16 | in.word();
  static constexpr hive_status statuses[] = {HIVE_OK, HIVE_OK, HIVE_NO_CHOICE, HIVE_E_ARGUMENT, 77, -1000, INT32_MIN, INT32_MAX};
  say.select = statuses[in.byte() & 7];
  say.evaluate = statuses[in.byte() & 7];
  say.scored = in.byte();
  say.score = in.number();
  say.usable = (how & 2) == 0;
  for (uint32_t &v : say.verdicts) v = in.word() | static_cast<uint32_t>(in.word()) << 16;

  const std::lock_guard lock(pool->mutex());
  const funnel_result r = run_funnel(*pool, *where, s, sel);
  if (r.what == verdict::chosen) {
    must(r.index < pool->count(), "an index in range");
    const fleet::pool_row &row = pool->row(r.index);
    must(row.who != nullptr && row.usable(), "a usable agent");
    must(fits_but_for_capacity(*pool, s, sel, r.index), "no static gate keeps it out");
    const auto [taken, capacity] = row.who->slots.load();
    must(taken < capacity, "it has a free slot");
    const uint32_t who = static_cast<uint32_t>(row.who->peer_id()[0] - 'a');
    must(!(heat[who] > 50), "no threshold keeps it out");
    const bool judged = say.usable && say.evaluate == HIVE_OK;
    must(!judged || (say.verdicts[r.index] & 2) == 0, "no custom rule keeps it out");
    must(judged || !on_error_exclude, "a failing gate excludes where the policy says so");
    if (say.asked && say.select == HIVE_OK && say.offered) must(r.index == say.index, "a right answer is followed");
    must(!(say.asked && say.select == HIVE_NO_CHOICE), "a strategy that wants nobody gets nobody");
  } else {
    const emptiness why = explain_empty(*pool, *where, s, sel);
    must(why.text().size() < 4096, "a bounded explanation");
  }
  count_refused(*pool, *where, s, sel);
  return 0;
}
