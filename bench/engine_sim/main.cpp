// engine_sim: a vLLM-like engine for tests and benchmarks.
//   engine_sim [--port N] [--model ID]... [--max-num-seqs N] [--kv-tokens N] [--first-token-ms N] [--step-ms N]
//              [--prefill-tokens-per-ms X] [--tokens N] [--word TEXT] [--spread] [--stamp] [--prefix-caching]
// Prints {"ready":true,"address":"127.0.0.1:PORT"} and serves until SIGTERM.
#include <sodium.h>

#include <boost/asio/signal_set.hpp>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/variables_map.hpp>
#include <iostream>

#include "engine_sim/simulator.hpp"

int main(int argc, char **argv) try {
  namespace po = boost::program_options;
  if (sodium_init() < 0) return 1;
  hive::sim::simulator_options options;
  uint16_t port = 0;
  uint64_t first_ms = 0, step_ms = 0;
  po::options_description flags("engine_sim");
  flags.add_options()("help", "this text")("port", po::value(&port))("model", po::value(&options.models)->composing())(
      "max-num-seqs", po::value(&options.model.max_sequences))("kv-tokens", po::value(&options.model.kv_tokens))(
      "first-token-ms", po::value(&first_ms))("step-ms", po::value(&step_ms))(
      "prefill-tokens-per-ms", po::value(&options.model.prefill_tokens_per_ms))("tokens", po::value(&options.default_tokens))(
      "word", po::value(&options.word))("spread", po::bool_switch(&options.model.spread))("stamp", po::bool_switch(&options.stamp))(
      "prefix-caching", po::bool_switch(&options.model.prefix_caching));
  po::variables_map given;
  po::store(po::parse_command_line(argc, argv, flags), given);
  po::notify(given);
  if (given.contains("help")) {
    std::cout << flags;
    return 0;
  }
  options.model.first_token_ns = first_ms * hive::ns_per_ms;
  options.model.step_ns = step_ms * hive::ns_per_ms;

  hive::loop loop;
  hive::sim::simulator simulator(loop, options);
  hive::http::server_limits limits;
  limits.max_connections = 100'000;  // never the measured bottleneck
  hive::http::server server(loop, simulator, limits);
  if (const auto s = server.listen("127.0.0.1:" + std::to_string(port), false); !s) {
    std::cerr << s.text() << "\n";
    return 1;
  }
  std::cout << "{\"ready\":true,\"address\":\"" << server.address() << "\"}" << std::endl;
  boost::asio::signal_set signals(loop.io(), SIGINT, SIGTERM);
  signals.async_wait([&](const boost::system::error_code &, int) { loop.stop(); });
  loop.run([](const char *what) { std::cerr << "engine_sim: " << what << "\n"; });
  return 0;
} catch (const std::exception &e) {
  std::cerr << "engine_sim: " << e.what() << "\n";
  return 2;
}
