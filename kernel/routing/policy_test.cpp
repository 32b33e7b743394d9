#include "routing/policy.hpp"

#include <boost/json.hpp>
#include <gmock/gmock.h>

#include "config/yaml.hpp"
#include "routing/fixture.hpp"
#include "routing/policy_text.hpp"

namespace hive::routing {
namespace {

using ::testing::HasSubstr;
using testing::test_source;

// The files of tests/policies: a global document and a named one, as the Go product has them.
std::string fixture(const char *name) {
  auto text = config::yaml::read_file(std::string(HIVE_POLICY_DIR) + "/" + name);
  EXPECT_TRUE(text) << text.why().text();
  return text ? *text : std::string();
}

TEST(policy_text, fixtures_load_unchanged_when_their_fields_are_served) {
  const test_source source;
  auto d = parse_policy(fixture("_default.yaml"), source);
  ASSERT_TRUE(d) << d.why().text();
  EXPECT_TRUE(d->warnings.empty());
  const policy_document &doc = *d->document;
  ASSERT_EQ(doc.steps.size(), 3u);
  EXPECT_EQ(doc.steps[0].name, "routing_policy");
  EXPECT_EQ(doc.steps[0].match.tags, std::vector<std::string>{"production"});
  EXPECT_EQ(doc.steps[0].exclude_if.size(), 6u);
  EXPECT_EQ(doc.steps[0].exclude_if[5].bound->op, comparison::gte);
  EXPECT_EQ(doc.steps[0].max_tries, 3);
  EXPECT_EQ(doc.steps[1].name, "eu-west");
  EXPECT_EQ(doc.steps[1].match.region, "EU-West");
  EXPECT_DOUBLE_EQ(doc.steps[1].exclude_if[0].bound->limit, 0.92);
  EXPECT_EQ(doc.steps[2].max_tries, 1);
  EXPECT_EQ(doc.shed_if.size(), 2u);

  auto l = parse_policy(fixture("llama3-large.yaml"), source, {"llama3-large.yaml", "llama3-large", true, true});
  ASSERT_TRUE(l) << l.why().text();
  EXPECT_EQ(l->document->models, (std::vector<std::string>{"llama3:70b", "llama3:70b-instruct"}));
  EXPECT_EQ(l->document->steps[1].name, "global-any");
}

TEST(policy_text, a_field_no_enabled_plugin_serves_is_named_with_its_provider) {
  const test_source source({"srtt", "gpu_temperature_c"});
  const auto d = parse_policy(fixture("llama3-large.yaml"), source);
  ASSERT_FALSE(d);
  EXPECT_THAT(d.why().text(), HasSubstr("unknown field 'kv_cache_utilization'"));
  EXPECT_THAT(d.why().text(), HasSubstr("plugin gate_engine provides it"));
  EXPECT_THAT(d.why().text(), HasSubstr("available: gpu_temperature_c, srtt"));
}

TEST(policy_text, every_value_of_a_full_document_is_in_its_place) {
  const test_source source;
  const auto d = parse_policy(R"(
max_input_tokens: 262144
images_max: 10
admit_budget_tokens: 408987
max_inflight: 37
mode: serverless
routing_policy:
  match: { region: eu, engine: vllm, organization: o, machine: m, gpu_model: H100 }
  exclude_if:
    srtt: { lte: 10, on_missing: exclude, max_age: 2s, leave: 12.5 }
    srtt_upper: { gt: 5, k: 4 }
  on_error: exclude
  strategy: { name: least-loaded, options: { a: 1 } }
  max_tries: 5
fallback_chain:
  - strategy: least-loaded
    max_tries: -1
fallback_provider: { engine: openai, model: gpt-4o }
)", source);
  ASSERT_TRUE(d) << d.why().text();
  const policy_document &doc = *d->document;
  EXPECT_EQ(doc.max_input_tokens, 262144);
  EXPECT_EQ(doc.images_max, 10);
  EXPECT_EQ(doc.admit_budget_tokens, 408987);
  EXPECT_EQ(doc.max_inflight, 37);
  EXPECT_EQ(doc.mode, "serverless");
  const policy_step &s = doc.steps[0];
  EXPECT_EQ(s.match.gpu_model, "H100");
  EXPECT_EQ(s.exclude_if[0].bound->op, comparison::lte);
  EXPECT_TRUE(s.exclude_if[0].bound->exclude_missing);
  EXPECT_EQ(s.exclude_if[0].bound->max_age_ns, 2 * ns_per_s);
  EXPECT_EQ(s.exclude_if[0].bound->leave, 12.5);
  EXPECT_FALSE(s.exclude_if[1].bound);
  EXPECT_EQ(boost::json::parse(s.exclude_if[1].json), boost::json::parse(R"({"gt":5,"k":4})"));
  EXPECT_TRUE(s.exclude_on_error);
  EXPECT_EQ(s.strategy.options, R"({"a":1})");
  EXPECT_EQ(s.max_tries, 5);
  EXPECT_EQ(doc.steps[1].name, "fallback_chain[0]");
  EXPECT_EQ(doc.steps[1].max_tries, 0);
  EXPECT_EQ(doc.provider->engine, "openai");
  EXPECT_EQ(doc.provider->model, "gpt-4o");
}

TEST(policy_text, json_view_parses_to_itself) {
  const test_source source;
  for (const char *mode : {"", "mode: serverless\n"}) {
    const std::string text = std::string(mode) + R"(
max_input_tokens: 262144
images_max: 10
admit_budget_tokens: 408987
max_inflight: 37
shed_if: { kv_cache_utilization: { gt: 0.9 }, waiting_requests: { gt: 20 } }
routing_policy: { strategy: least-loaded, match: { tags: [a, b], region: eu }, max_tries: 2 }
fallback_chain: [ { name: x, strategy: { name: least-loaded, options: { k: v } },
                    exclude_if: { srtt: { gt: 1.5, leave: 1, on_missing: exclude, max_age: 3s } } } ]
)";
    const auto once = parse_policy(text, source);
    ASSERT_TRUE(once) << once.why().text();
    const std::string view = boost::json::serialize(to_json(*once->document));
    const auto twice = parse_policy(view, source);
    ASSERT_TRUE(twice) << twice.why().text() << view;
    EXPECT_EQ(boost::json::serialize(to_json(*twice->document)), view);
    const auto json = to_json(*once->document);
    EXPECT_EQ(json.at("mode"), *mode ? "serverless" : "reserved");
    EXPECT_EQ(json.at("shed_if").at("kv_cache_utilization").at("gt").as_double(), 0.9);
    EXPECT_EQ(json.at("fallback_chain").at(0).at("exclude_if").at("srtt").at("leave"), 1);
    EXPECT_FALSE(json.contains("models"));
    EXPECT_TRUE(json.at("fallback_chain").at(0).at("match").is_object());
  }
}

// Naive variant: a cap that neither the view nor the reader knows of leaves two views that are equal.
TEST(policy_text, caps_and_both_rules_of_shed_if_come_back_byte_for_byte_in_either_mode) {
  const test_source source;
  for (const char *mode : {"reserved", "serverless"}) {
    const auto once = parse_policy(std::string("mode: ") + mode + R"(
max_input_tokens: 262144
images_max: 10
admit_budget_tokens: 408987
max_inflight: 37
shed_if: { kv_cache_utilization: { gt: 0.90 }, waiting_requests: { gt: 20 } }
routing_policy: { strategy: least-loaded }
)", source);
    ASSERT_TRUE(once) << once.why().text();
    const std::string view = boost::json::serialize(to_json(*once->document));
    const auto twice = parse_policy(view, source);
    ASSERT_TRUE(twice) << twice.why().text() << view;
    EXPECT_EQ(boost::json::serialize(to_json(*twice->document)), view);
    const policy_document &d = *twice->document;
    EXPECT_EQ(d.mode, mode);
    EXPECT_EQ(d.max_input_tokens, 262144);
    EXPECT_EQ(d.images_max, 10);
    EXPECT_EQ(d.admit_budget_tokens, 408987);
    EXPECT_EQ(d.max_inflight, 37);
    ASSERT_EQ(d.shed_if.size(), 2u);
    EXPECT_EQ(d.shed_if[0].field, "kv_cache_utilization");
    EXPECT_EQ(d.shed_if[1].field, "waiting_requests");
    for (const field_rule &rule : d.shed_if) ASSERT_TRUE(rule.bound) << rule.field;
    EXPECT_EQ(d.shed_if[0].bound->op, comparison::gt);
    EXPECT_DOUBLE_EQ(d.shed_if[0].bound->limit, 0.90);
    EXPECT_EQ(d.shed_if[1].bound->op, comparison::gt);
    EXPECT_DOUBLE_EQ(d.shed_if[1].bound->limit, 20);
  }
}

// Naive variant: each value is read, and some are put where others belong.
TEST(policy_text, each_value_of_a_filtered_and_gated_step_its_fallback_and_its_provider_is_in_its_place) {
  const test_source source;
  const auto parsed = parse_policy(R"(
routing_policy:
  match: { region: eu, engine: vllm }
  exclude_if:
    kv_cache_utilization: { gt: 0.9 }
    waiting_requests: { gte: 20 }
  strategy: least-loaded
  max_tries: 5
fallback_chain:
  - { name: anywhere, strategy: least-loaded, max_tries: 1 }
fallback_provider: { engine: openai, model: gpt-4o }
)", source);
  ASSERT_TRUE(parsed) << parsed.why().text();
  EXPECT_TRUE(parsed->warnings.empty());
  const policy_document &d = *parsed->document;
  ASSERT_EQ(d.steps.size(), 2u);
  const policy_step &first = d.steps[0], &second = d.steps[1];
  EXPECT_EQ(first.name, "routing_policy");
  EXPECT_EQ(first.match.region, "eu");
  EXPECT_EQ(first.match.engine, "vllm");
  EXPECT_EQ(first.match.organization + first.match.machine + first.match.gpu_model, "");
  EXPECT_TRUE(first.match.tags.empty());
  ASSERT_EQ(first.exclude_if.size(), 2u);
  EXPECT_EQ(first.exclude_if[0].field, "kv_cache_utilization");
  EXPECT_EQ(first.exclude_if[0].bound->op, comparison::gt);
  EXPECT_DOUBLE_EQ(first.exclude_if[0].bound->limit, 0.9);
  EXPECT_EQ(first.exclude_if[1].field, "waiting_requests");
  EXPECT_EQ(first.exclude_if[1].bound->op, comparison::gte);
  EXPECT_DOUBLE_EQ(first.exclude_if[1].bound->limit, 20);
  EXPECT_EQ(first.strategy.name, "least-loaded");
  EXPECT_EQ(first.max_tries, 5);
  EXPECT_EQ(second.name, "anywhere");
  EXPECT_EQ(second.match.region + second.match.engine, "");
  EXPECT_TRUE(second.exclude_if.empty());
  EXPECT_EQ(second.strategy.name, "least-loaded");
  EXPECT_EQ(second.max_tries, 1);
  ASSERT_TRUE(d.provider);
  EXPECT_EQ(d.provider->engine, "openai");
  EXPECT_EQ(d.provider->model, "gpt-4o");
  EXPECT_TRUE(d.shed_if.empty());
}

struct bad_policy {
  const char *text;
  const char *fragment;
};

class refused : public ::testing::TestWithParam<bad_policy> {};

// It goes into headers (`--expose-routing`), logs and the audit line.
TEST(policy_text, the_name_of_a_step_has_a_bound) {
  const test_source source;
  for (const size_t bytes : {256u, 257u}) {
    const auto d = parse_policy("routing_policy: {strategy: least-loaded}\nfallback_chain: [{strategy: least-loaded, name: " + std::string(bytes, 'n') + "}]",
                                source, {"p.yaml", "", false, false});
    ASSERT_EQ(static_cast<bool>(d), bytes == 256);
    if (bytes > 256) {
      EXPECT_THAT(d.why().text(), HasSubstr("the name of a step has at most 256 bytes"));
    }
  }
}

// It goes into labels and logs.
TEST(policy_text, a_providers_model_has_a_bound) {
  const test_source source;
  for (const size_t bytes : {256u, 257u}) {
    const auto d = parse_policy("routing_policy: {strategy: least-loaded}\nfallback_provider: {engine: openai, model: " + std::string(bytes, 'm') + "}", source,
                                {"p.yaml", "", false, false});
    ASSERT_EQ(static_cast<bool>(d), bytes == 256);
    if (bytes > 256) {
      EXPECT_THAT(d.why().text(), HasSubstr("fallback_provider.model has at most 256 bytes"));
    }
  }
}

TEST_P(refused, with_words_that_name_what_is_wrong) {
  const test_source source;
  const auto d = parse_policy(GetParam().text, source, {"p.yaml", "", false, false});
  ASSERT_FALSE(d) << GetParam().text;
  EXPECT_THAT(d.why().text(), HasSubstr(GetParam().fragment));
}

INSTANTIATE_TEST_SUITE_P(
    policy_text, refused,
    ::testing::Values(
        bad_policy{"", "strategy is required"}, bad_policy{"[not-a-map", "p.yaml"}, bad_policy{"[a]", "p.yaml:1"},
        bad_policy{"routing_policy: {}", "strategy is required"},
        bad_policy{"routing_policy: {strategy: ''}", "strategy is required"},
        bad_policy{"routing_policy: {strategy: {options: {}}}", "strategy is required"},
        bad_policy{"routing_policy: {strategy: ~}", "strategy is required"},
        bad_policy{"routing_policy: {strategy: lowest-srtt}", "unknown strategy"},
        bad_policy{"routing_policy: {strategy: round-robin}", "unknown strategy 'round-robin' (available: "},
        bad_policy{"routing_policy: {strategy: prefix-aware}", "unknown strategy"},
        bad_policy{"routing_policy: {strategy: least-loadde}", "did you mean 'least-loaded'?"},
        bad_policy{"routing_policy: {strategy: power-of-two}", "plugin strategy_power_of_two provides it"},
        bad_policy{"routing_policy: {strategy: lowest-kv-cache}", "not yet implemented"},
        bad_policy{"routing_policy: {strategy: lowest-queue}", "not yet implemented; available: least-loaded"},
        bad_policy{"routing_policy: {strategy: best-ttft}", "not yet implemented"},
        bad_policy{"routing_policy: {strategy: best-itl}", "not yet implemented"},
        bad_policy{"routing_policy: {strategy: {name: least-loaded, options: {bogus: 1}}}", "unknown key 'bogus'"},
        bad_policy{"routing_policy: {strategy: least-loaded, exclude_if: {nope: {gt: 1}}}", "unknown field"},
        bad_policy{"routing_policy: {strategy: least-loaded, exclude_if: {srt: {gt: 1}}}", "did you mean 'srtt'?"},
        bad_policy{"routing_policy: {strategy: least-loaded, exclude_if: {srtt: {}}}", "exactly one operator"},
        bad_policy{"routing_policy: {strategy: least-loaded, exclude_if: {srtt: ~}}", "exactly one operator"},
        bad_policy{"routing_policy: {strategy: least-loaded, exclude_if: {srtt: 5}}", "exactly one operator"},
        bad_policy{"routing_policy: {strategy: least-loaded, exclude_if: {srtt: {gt: 1, lt: 2}}}", "only one operator"},
        bad_policy{"routing_policy: {strategy: least-loaded, exclude_if: {srtt: {gt: fast}}}", "p.yaml:1"},
        bad_policy{"routing_policy: {strategy: least-loaded, exclude_if: {srtt: {gt: 1}, srtt: {gt: 2}}}", "srtt"},
        bad_policy{"routing_policy: {strategy: least-loaded, exclude_if: {srtt: {gt: 9, leave: 9.5}}}",
                   "an agent at 9.5 still violates gt 9; it comes back at a value that does not, like {gt: 9, leave: 8.1}"},
        bad_policy{"routing_policy: {strategy: least-loaded, exclude_if: {srtt: {gte: 9, leave: 9}}}", "still violates gte 9"},
        bad_policy{"routing_policy: {strategy: least-loaded, exclude_if: {srtt: {lt: 0.5, leave: 0.4}}}", "like {lt: 0.5, leave: 0.55}"},
        bad_policy{"routing_policy: {strategy: least-loaded, exclude_if: {srtt: {lte: 0, leave: 0}}}", "like {lte: 0, leave: 1}"},
        bad_policy{"routing_policy: {strategy: least-loaded, exclude_if: {srtt: {gt: 9, leave: soon}}}", "p.yaml:1"},
        bad_policy{"routing_policy: {strategy: least-loaded, exclude_if: {srtt: {gt: 9, on_missing: maybe}}}", "want pass or exclude"},
        bad_policy{"routing_policy: {strategy: least-loaded, exclude_if: {srtt: {gt: 9, max_age: old}}}", "p.yaml:1"},
        bad_policy{"routing_policy: {strategy: least-loaded, match: [a]}", "match"},
        bad_policy{"routing_policy: {strategy: least-loaded, max_tries: lots}", "max_tries"},
        bad_policy{"routing_policy: {strategy: least-loaded}\nfallback_chain: [{name: x}]", "strategy is required"},
        bad_policy{"mode: reserverd", "unknown mode"}, bad_policy{"max_input_tokens: -1", "max_input_tokens"},
        bad_policy{"images_max: -1", "images_max"}, bad_policy{"admit_budget_tokens: 1.5", "admit_budget_tokens"},
        bad_policy{"max_inflight: -3", "max_inflight"},
        bad_policy{"shed_if: {gpu_temperature_c: {gt: 1}}", "shed_if"},
        bad_policy{"shed_if: {gpu_temperature_c: {gt: 1}}", "unknown field"},
        bad_policy{"shed_if: {gpu_temperature_c: {gt: 1}}", "it may stand in exclude_if only (available: kv_cache_utilization, waiting_requests)"},
        bad_policy{"shed_if: {kv_cache_utilization: {gt: 1, leave: 0.5}}", "shed_if.kv_cache_utilization.leave may stand in exclude_if only"},
        bad_policy{"shed_if: {kv_cache_utilization: {gt: 1, max_age: 5s}}", "max_age may stand in exclude_if only"},
        bad_policy{"shed_if: {kv_cache_utilization: {gt: 1, on_missing: exclude}}", "on_missing may stand in exclude_if only"},
        bad_policy{"shed_if: {kv_cache_utilization: {}}", "exactly one operator"},
        bad_policy{"shed_if: {kv_cache_utilization: {gt: 1, lt: 2}}", "exactly one operator"},
        bad_policy{"routing_policy: {strategy: least-loaded}\nfallback_provider: {model: m}",
                   "fallback_provider.engine is required"},
        bad_policy{"routing_policy: {strategy: least-loaded}\nfallback_provider: {engine: openai}",
                   "fallback_provider.model is required"}));

TEST(policy_text, the_first_error_wins_mode_before_limits_before_shed_if_before_steps) {
  const test_source source;
  std::string text = "fallback_provider: {model: m}\nfallback_chain: [{strategy: no}]\n"
                     "routing_policy: {exclude_if: {nope: {gt: 1}}}\nshed_if: {nope: {gt: 1}}\nmax_inflight: -1\nmode: odd\n";
  const std::pair<const char *, const char *> order[] = {
      {"mode: odd\n", "unknown mode"},
      {"max_inflight: -1\n", "max_inflight"},
      {"shed_if: {nope: {gt: 1}}\n", "shed_if"},
      {"routing_policy: {exclude_if: {nope: {gt: 1}}}\n", "routing_policy: strategy is required"},
  };
  for (const auto &[cause, fragment] : order) {
    const auto d = parse_policy(text, source);
    ASSERT_FALSE(d);
    EXPECT_THAT(d.why().text(), HasSubstr(fragment));
    text.erase(text.find(cause), std::string(cause).size());
  }
  text += "routing_policy: {strategy: least-loaded}\n";
  EXPECT_THAT(parse_policy(text, source).why().text(), HasSubstr("unknown strategy 'no'"));
}

TEST(policy_text, unknown_keys_and_impossible_thresholds_warn_and_unknown_keys_fail_when_strict) {
  const test_source source;
  const char *text = "routing_policy:\n  strategy: least-loaded\n  match: { regoin: eu }\n  exlude_if: {}\n"
                     "  exclude_if: { success_rate: { gt: 95 } }\nmodles: [a]\n";
  const auto d = parse_policy(text, source, {"p.yaml", "", false, false});
  ASSERT_TRUE(d) << d.why().text();
  const std::string all = ::testing::PrintToString(d->warnings);
  for (const char *fragment : {"p.yaml:3", "regoin", "region", "p.yaml:4", "exlude_if", "exclude_if", "p.yaml:6", "modles",
                               "success_rate: 95 lies outside 0..1"})
    EXPECT_THAT(all, HasSubstr(fragment));
  EXPECT_EQ(d->warnings.size(), 4u);
  EXPECT_FALSE(parse_policy(text, source, {"p.yaml", "", true, false}));
}

TEST(policy_text, a_leave_outside_the_range_warns_and_one_at_the_limit_is_fine) {
  const test_source source;
  const auto parse = [&](const char *rule) {
    return parse_policy(std::string("routing_policy: {strategy: least-loaded, exclude_if: {success_rate: ") + rule + "}}", source);
  };
  const auto far = parse("{lt: 0.9, leave: 1.5}");
  ASSERT_TRUE(far) << far.why().text();
  ASSERT_EQ(far->warnings.size(), 1u);
  EXPECT_THAT(far->warnings[0], HasSubstr("success_rate.leave: 1.5 lies outside 0..1 (fraction), so an agent that is kept out may never come back"));
  const auto same = parse("{lt: 0.9, leave: 0.9}");
  ASSERT_TRUE(same) << same.why().text();
  EXPECT_TRUE(same->warnings.empty());
}

TEST(policy_text, every_problem_is_told_when_all_are_asked_for) {
  const test_source source;
  std::vector<status> all;
  policy_text_options options{"p.yaml", "doc", true, true, &all};
  const auto d = parse_policy(R"(mode: reserverd
images_max: -1
max_inflight: x
shed_if: { gpu_temperature_c: { gt: 1 }, kv_cache_utilization: {} }
routing_policy:
  strategy: best-itl
  exclude_if: { srt: { gt: 1 }, srtt: { gt: 1, lt: 2 } }
fallback_chain:
  - { match: { region: [a] }, strategy: nonsense, regoin: x }
fallback_provider: { model: m }
)", source, options);
  ASSERT_TRUE(d) << "what the reader made of it is there, and is not good";
  std::string text;
  for (const status &s : all) text += s.text() + "\n";
  const std::pair<int, const char *> wants[] = {{1, "unknown mode"}, {2, "images_max"}, {3, "max_inflight"}, {4, "may stand in exclude_if only"},
                                                {4, "exactly one operator"}, {6, "not yet implemented"}, {7, "did you mean 'srtt'"},
                                                {7, "only one operator"}, {9, "unknown strategy"}, {9, "region"}, {9, "regoin"},
                                                {10, "fallback_provider.engine is required"}, {1, "models"}};
  for (const auto &[line, words] : wants) {
    const bool told = std::any_of(all.begin(), all.end(), [&](const status &s) {
      return s.text().starts_with("p.yaml:" + std::to_string(line) + ":") && s.text().find(words) != std::string::npos;
    });
    EXPECT_TRUE(told) << line << " " << words << "\n" << text;
  }
  EXPECT_EQ(all.size(), std::size(wants)) << text;
}

TEST(policy_text, a_named_document_must_say_its_models) {
  const test_source source;
  const auto d = parse_policy("routing_policy: {strategy: least-loaded}", source, {"p.yaml", "p", false, true});
  ASSERT_FALSE(d);
  EXPECT_THAT(d.why().text(), HasSubstr("models"));
}

TEST(policy, a_step_may_bound_its_wait) {
  const test_source source;
  const auto d = parse_policy("routing_policy: {strategy: least-loaded, max_queue_wait: 1500ms}\n"
                              "fallback_chain: [{strategy: least-loaded}]", source);
  ASSERT_TRUE(d) << d.why().text();
  EXPECT_EQ(d->document->steps[0].max_queue_wait_ns, 1500 * ns_per_ms);
  EXPECT_EQ(d->document->steps[1].max_queue_wait_ns, 0u);
  const auto again = parse_policy(boost::json::serialize(to_json(*d->document)), source);
  ASSERT_TRUE(again) << again.why().text();
  EXPECT_EQ(again->document->steps[0].max_queue_wait_ns, 1500 * ns_per_ms);
  EXPECT_FALSE(parse_policy("routing_policy: {strategy: least-loaded, max_queue_wait: 5}", source));
}

TEST(policy, default_document_is_valid_as_text) {
  const test_source source;
  const auto again = parse_policy(boost::json::serialize(to_json(*default_policy())), source, {"d", "", true, false});
  ASSERT_TRUE(again) << again.why().text();
  auto json = to_json(*again->document);
  EXPECT_EQ(json.at("mode").as_string(), "reserved");
  json.erase("mode");
  EXPECT_EQ(json, to_json(*default_policy()));
}

fleet::agent_info sample_agent() {
  fleet::agent_info a;
  a.region = "eu";
  a.engine = "vllm";
  a.organization = "org";
  a.machine = "m1";
  a.gpu_model = "H100";
  a.tags = {"prod", "fast"};
  return a;
}

TEST(match, table) {
  const fleet::agent_info a = sample_agent();
  struct {
    match_filter want;
    bool match;
    const char *token;
  } cases[] = {
      {{}, true, ""},
      {{"eu", "", "", "", {}, ""}, true, ""},
      {{"us", "", "", "", {}, ""}, false, "region(got=\"eu\",want=\"us\")"},
      {{"EU", "", "", "", {}, ""}, false, "region(got=\"eu\",want=\"EU\")"},
      {{"", "sglang", "", "", {}, ""}, false, "engine(got=\"vllm\",want=\"sglang\")"},
      {{"", "", "other", "", {}, ""}, false, "organization(got=\"org\",want=\"other\")"},
      {{"", "", "", "m2", {}, ""}, false, "machine(got=\"m1\",want=\"m2\")"},
      {{"", "", "", "", {}, "H100"}, true, ""},
      {{"", "", "", "", {}, "A100"}, false, "gpu_model(got=\"H100\",want=\"A100\")"},
      {{"", "", "", "", {"prod", "fast"}, ""}, true, ""},
      {{"", "", "", "", {"fast"}, ""}, true, ""},
      {{"", "", "", "", {"prod", "gpu"}, ""}, false, "tag(missing=\"gpu\",got=[prod,fast])"},
      {{"eu", "vllm", "", "", {"prod"}, ""}, true, ""},
      {{"eu", "sglang", "", "", {"prod"}, ""}, false, "engine(got=\"vllm\",want=\"sglang\")"},
  };
  for (const auto &c : cases) {
    EXPECT_EQ(matches(c.want, a), c.match);
    EXPECT_EQ(mismatch(c.want, a), c.token);
  }
}

}  // namespace
}  // namespace hive::routing
