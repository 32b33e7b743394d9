// Draws docs/strategies/*.svg from the scenarios: how long requests wait for their first token under each rule.
//
// usage: strategy_pictures FOLDER
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>

#include "scenarios.hpp"

namespace hive::simulation {
namespace {

struct line {
  std::string name;
  run_result result;
};

std::string number(double v, const char *format = "%.1f") {
  char text[32];
  std::snprintf(text, sizeof text, format, v);
  return text;
}

// A distribution: x is seconds (log scale), y the share of requests that had their first token by then.
void draw(const std::string &file, const std::string &title, const std::vector<line> &lines) {
  constexpr double left = 60, top = 50, width = 560, height = 260, low = 0.02, high = 50;
  static constexpr const char *colours[] = {"#999999", "#d08020", "#1060c0"};
  const auto x_of = [&](double s) { return left + width * std::log(std::clamp(s, low, high) / low) / std::log(high / low); };
  const auto y_of = [&](double share) { return top + height * (1 - share); };
  std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 370\" font-family=\"sans-serif\" font-size=\"12\">\n"
                    "<rect width=\"640\" height=\"370\" fill=\"white\"/>\n<text x=\"60\" y=\"22\" font-size=\"14\">" + title + "</text>\n";
  const auto text = [&](double x, double y, const std::string &words, const char *anchor, const char *colour = "#333333") {
    out += "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + anchor + "\" fill=\"" + colour + "\">" + words + "</text>\n";
  };
  const auto rule_line = [&](double x1, double y1, double x2, double y2) {
    out += "<path d=\"M" + number(x1) + " " + number(y1) + " L" + number(x2) + " " + number(y2) + "\" stroke=\"#dddddd\"/>\n";
  };
  for (const double share : {0.0, 0.25, 0.5, 0.75, 0.9, 1.0}) {
    rule_line(left, y_of(share), left + width, y_of(share));
    text(left - 6, y_of(share) + 4, number(share * 100, "%.0f") + " %", "end");
  }
  for (const double s : {0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0}) {
    rule_line(x_of(s), top, x_of(s), top + height);
    text(x_of(s), top + height + 16, number(s, "%g"), "middle");
  }
  text(left + width / 2, top + height + 34, "seconds until the first token", "middle");
  for (size_t k = 0; k < lines.size(); ++k) {
    const run_result &r = lines[k].result;
    out += std::string("<path fill=\"none\" stroke-width=\"2\" stroke=\"") + colours[k % 3] + "\" d=\"";
    for (int p = 0; p <= 100; ++p) {
      const double share = p / 100.0;
      out += (p == 0 ? "M" : " L") + number(x_of(r.first_p(std::min(share, 0.9999)))) + " " + number(y_of(share));
    }
    out += "\"/>\n";
    text(left + 12, top + 18 + 16 * static_cast<double>(k), lines[k].name, "start", colours[k % 3]);
  }
  std::ofstream(file) << out << "</svg>\n";
  std::cout << "\n" << file.substr(file.rfind('/') + 1) << "\n| rule | cached | busiest / mean | first token p50 / p90 / p99, s |\n|---|---|---|---|\n";
  for (const line &l : lines)
    std::cout << "| " << l.name << " | " << number(l.result.hit_rate, "%.3f") << " | " << number(l.result.busiest, "%.2f") << " | "
              << number(l.result.first_p(0.5), "%.2f") << " / " << number(l.result.first_p(0.9), "%.2f") << " / "
              << number(l.result.first_p(0.99), "%.2f") << " |\n";
}

int draw_all(const std::string &folder) {
  const scenario plain = plain_load(), unequal = unequal_engines(), bad = one_goes_bad(), mixed = mixed_lengths(), chats = long_chats(),
                 real = conversations(800, 1),
                 large = conversations(2000, 1.6);
  in_turn turns;
  draw(folder + "/least-loaded.svg", "16 engines, half of them half as fast with half the slots",
       {{"in turn", simulate(unequal.requests, unequal.fleet, turns)}, {"power-of-two", run(unequal, "power-of-two")},
        {"least-loaded", run(unequal, "least-loaded")}});
  plugin_rule two("power-of-two", "", 16), least("least-loaded", "", 16);
  seen_late two_late(two, 1), least_late(least, 1);
  in_turn turns_again;
  draw(folder + "/power-of-two.svg", "16 equal engines, seen up to a second late",
       {{"in turn", simulate(plain.requests, plain.fleet, turns_again)}, {"least-loaded", simulate(plain.requests, plain.fleet, least_late)},
        {"power-of-two", simulate(plain.requests, plain.fleet, two_late)}});
  draw(folder + "/peak-ewma.svg", "One of 8 engines takes five times as long for a third of the time",
       {{"power-of-two", run(bad, "power-of-two")}, {"least-loaded", run(bad, "least-loaded")}, {"peak-ewma", run(bad, "peak-ewma")}});
  draw(folder + "/token-load.svg", "8 engines; one request of ten is a document",
       {{"power-of-two", run(mixed, "power-of-two")}, {"least-loaded", run(mixed, "least-loaded")}, {"token-load", run(mixed, "token-load")}});
  draw(folder + "/consistent-hash.svg", "400 chats over 8 engines with prefix caches",
       {{"least-loaded", run(chats, "least-loaded")}, {"prefix-affinity", run(chats, "prefix-affinity", R"({"blocks": 600})")},
        {"consistent-hash", run(chats, "consistent-hash")}});
  longest_match match(8, 800), larger(8, 2000);
  draw(folder + "/prefix-affinity.svg", "6,000 real chat requests, 8 engines, 800 blocks of cache each",
       {{"least-loaded", run(real, "least-loaded")}, {"longest match", simulate(real.requests, real.fleet, match)},
        {"prefix-affinity", run(real, "prefix-affinity", R"({"blocks": 800})")}});
  draw(folder + "/prefix-affinity-loaded.svg", "The same at 1.6 times the rate, 2,000 blocks of cache",
       {{"least-loaded", run(large, "least-loaded")}, {"longest match", simulate(large.requests, large.fleet, larger)},
        {"prefix-affinity", run(large, "prefix-affinity", R"({"blocks": 2000})")}});
  return 0;
}

}  // namespace
}  // namespace hive::simulation

int main(int argc, char **argv) {
  if (argc != 2) {
    std::cerr << "usage: strategy_pictures FOLDER\n";
    return 2;
  }
  return hive::simulation::draw_all(argv[1]);
}
