// Settings of admission: how much of a model's budget is given away, and who waits for it. Environment names are those of the Go
// product.
#include "base/clock.hpp"
#include "config/router_settings.hpp"

namespace hive::config {

namespace {

status is_fraction(const std::string &text) {
  if (share_of(text).value_or(0) > 0) return {};
  return fail(errc::invalid, "\"" + text + "\" is no fraction; write a number above 0 and up to 1, such as 0.9");
}

}  // namespace

void add_admission_rows(table &t, router_settings &r) {
  t.section("Admission");
  t.add("admit-fraction", &r.written.admit_fraction, "0.90",
        "Part of a policy's admit_budget_tokens that is given to requests; the rest is room for answers longer than estimated.")
      .check(is_fraction).shown_as("FRACTION");
  t.add("admit-park-timeout", &r.admit_park_timeout, "250ms",
        "How long a request that does not fit its model's budget now waits for room before its 429; 0 = not at all.").range(0, 60 * ns_per_s);
  t.add("admit-default-output", &r.admit_default_output, "512",
        "Tokens reserved for the answer of a request that is no stream and does not say how long its answer may be.").range(0, 1'000'000);
  t.add("tenant-fairness", &r.tenant_fairness, "true",
        "Where requests wait for agent capacity, the owners of client keys take turns by the tokens they were granted; off = by arrival alone.");
}

void resolve_admission(router_settings &r) { r.admit_fraction = share_of(r.written.admit_fraction).value_or(r.admit_fraction); }

}  // namespace hive::config
