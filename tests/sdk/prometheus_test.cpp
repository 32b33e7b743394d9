#include "hive/sdk/prometheus.hpp"

#include <gtest/gtest.h>

#include <map>

namespace hive::sdk {
namespace {

struct collected {
  std::map<std::string, double> gauges, counters, sums, totals;
  std::map<std::string, std::vector<double>> bounds, counts;
  hive_page_sink table{sizeof(hive_page_sink),
                       0,
                       this,
                       [](void *, int32_t, hive_str) noexcept {},
                       [](void *, hive_str, const hive_header *, size_t) noexcept {},
                       [](void *c, hive_str n, double v) noexcept { of(c).gauges[std::string(view(n))] = v; },
                       [](void *c, hive_str n, hive_str l, hive_str lv, double v) noexcept {
                         of(c).counters[std::string(view(n)) + "|" + std::string(view(l)) + "|" + std::string(view(lv))] = v;
                       },
                       [](void *c, hive_str n, const double *b, const double *k, size_t count, double sum, double total) noexcept {
                         const std::string name(view(n));
                         of(c).bounds[name].assign(b, b + count);
                         of(c).counts[name].assign(k, k + count);
                         of(c).sums[name] = sum;
                         of(c).totals[name] = total;
                       }};
  static collected &of(void *c) { return *static_cast<collected *>(c); }
};

const prometheus_reader reader({
    {"running", fold::sum, {"new:running", "old:running"}},
    {"cache", fold::mean, {"cache"}},
    {"worst", fold::max, {"cache"}},
    {"tokens_total", fold::counter, {"tokens_total"}},
    {"finished_total", fold::counter, {"finished_total"}, "reason"},
    {"ttft_seconds", fold::histogram, {"ttft_seconds"}},
});

TEST(prometheus, folds_series_by_the_alias_table) {
  collected out;
  EXPECT_TRUE(reader.read(R"(# HELP new:running requests
# TYPE new:running gauge
old:running 99
new:running{model="a",engine="0"} 2
new:running{model="a",engine="1"} 3 1700000000000
cache{e="0"} 0.25
cache{e="1"} 0.75
tokens_total{a="1"} 10
tokens_total{a="2"} 5.5e1
finished_total{reason="stop",m="x"} 7
finished_total{m="y",reason="stop"} 1
finished_total{reason="le}n,g\"th"} 2
ttft_seconds_bucket{le="0.1",m="x"} 1
ttft_seconds_bucket{le="1.0",m="x"} 3
ttft_seconds_bucket{le="+Inf",m="x"} 4
ttft_seconds_bucket{le="0.1",m="y"} 1
ttft_seconds_bucket{le="1.0",m="y"} 1
ttft_seconds_bucket{le="+Inf",m="y"} 1
ttft_seconds_sum{m="x"} 5
ttft_seconds_sum{m="y"} 0.05
ttft_seconds_count{m="x"} 4
ttft_seconds_count{m="y"} 1
)",
                          page_sink(&out.table)));
  EXPECT_EQ(out.gauges["running"], 5);
  EXPECT_EQ(out.gauges["cache"], 0.5);
  EXPECT_EQ(out.gauges["worst"], 0.75);
  EXPECT_EQ(out.counters["tokens_total||"], 65);
  EXPECT_EQ(out.counters["finished_total|reason|stop"], 8);
  EXPECT_EQ(out.counters["finished_total|reason|le}n,g\"th"], 2);
  EXPECT_EQ(out.bounds["ttft_seconds"], (std::vector<double>{0.1, 1}));
  EXPECT_EQ(out.counts["ttft_seconds"], (std::vector<double>{2, 4}));
  EXPECT_DOUBLE_EQ(out.sums["ttft_seconds"], 5.05);
  EXPECT_EQ(out.totals["ttft_seconds"], 5);
}

TEST(prometheus, skips_what_it_cannot_read_and_what_is_not_a_number) {
  collected out;
  EXPECT_TRUE(reader.read("cache{e=\"0\" 1\ncache{e=\"0\"}\nnew:running NaN\nnew:running x\n\n{}\nold:running 4\r\ncache{e=\"2\"} 0.5", page_sink(&out.table)));
  EXPECT_EQ(out.gauges["cache"], 0.5);
  EXPECT_EQ(out.gauges["running"], 4) << "a family that only says NaN does not hide the older name";
  EXPECT_FALSE(reader.read("<html lang=\"en\">\n<body> 404 </body>\n{\"error\": 1}", page_sink(&out.table)));
  EXPECT_FALSE(reader.read("", page_sink(&out.table)));
  EXPECT_FALSE(reader.read("# nothing\n", page_sink(&out.table)));
}

}  // namespace
}  // namespace hive::sdk
