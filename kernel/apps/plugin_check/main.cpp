// hive-plugin-check FILE: runs every check over one plugin library, each in its own child process.
// hive-plugin-check --describe FILE [--output OUT]: what the library says of itself, as JSON; 1 = refused, reason on stderr.
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <string>

#include "apps/plugin_check/checks.hpp"

namespace {

using namespace hive;

constexpr unsigned seconds_per_check = 20;
constexpr int code_pass = 0, code_fail = 1, code_skip = 3;

int describe(const std::string &path, const std::string &output) {
  try {
    const std::string text = boost::json::serialize(plugins::to_json(check::load_subject(path)));
    if (output.empty()) std::cout << text << std::endl;
    else std::ofstream(output) << text << "\n";
    // No destructors of foreign code: what we came for is written.
    _exit(0);
  } catch (const check::broken &e) {
    std::cerr << e.what() << std::endl;
    _exit(1);
  }
}

struct outcome {
  std::string verdict, words;
};

outcome run(const check::check &c, const check::subject &s, bool in_process) {
  int ends[2];
  if (!in_process && pipe(ends) != 0) return {"fail", std::strerror(errno)};
  const auto body = [&](std::string &words) {
    try {
      c.run(s);
      return code_pass;
    } catch (const check::skipped &e) {
      words = e.what();
      return code_skip;
    } catch (const std::exception &e) {
      words = e.what();
      return code_fail;
    }
  };
  const auto name = [](int code) { return code == code_pass ? "pass" : code == code_skip ? "skip" : "fail"; };
  if (in_process) {
    std::string words;
    const int code = body(words);
    return {name(code), words};
  }
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    alarm(seconds_per_check);
    std::string words;
    const int code = body(words);
    if (write(ends[1], words.data(), std::min<size_t>(words.size(), 4000)) < 0) _exit(code_fail);
    _exit(code);
  }
  close(ends[1]);
  outcome out;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) out.words.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  int state = 0;
  waitpid(child, &state, 0);
  if (WIFSIGNALED(state)) return {WTERMSIG(state) == SIGALRM ? "hang" : "crash", strsignal(WTERMSIG(state))};
  out.verdict = name(WEXITSTATUS(state));
  return out;
}

int usage(int code) {
  (code == 0 ? std::cout : std::cerr) << "usage: hive-plugin-check [--json] [--only-failed] [--in-process] [--config JSON] FILE\n"
                                         "       hive-plugin-check --describe FILE [--output OUT]\n"
                                         "       hive-plugin-check --list\n";
  return code;
}

}  // namespace

int main(int argc, char **argv) {
  std::string file, output;
  check::subject subject;
  bool describing = false, json = false, only_failed = false, in_process = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view a = argv[i];
    if (a == "--help") return usage(0);
    if (a == "--list") {
      for (const auto &c : check::all_checks()) std::cout << c.name << ": " << c.sentence << "\n";
      return 0;
    }
    if (a == "--describe") describing = true;
    else if (a == "--json") json = true;
    else if (a == "--only-failed") only_failed = true;
    else if (a == "--in-process") in_process = true;
    else if (a == "--output" && i + 1 < argc) output = argv[++i];
    else if (a == "--config" && i + 1 < argc) subject.config = argv[++i];
    else if (!a.empty() && a.front() != '-' && file.empty()) file = a;
    else return usage(2);
  }
  if (file.empty()) return usage(2);
  if (describing) return describe(file, output);

  subject.path = file;
  bool failed = false;
  boost::json::array results;
  for (const auto &c : check::all_checks()) {
    const outcome o = run(c, subject, in_process);
    const bool fine = o.verdict == "pass" || o.verdict == "skip";
    failed = failed || !fine;
    if (only_failed && fine) continue;
    if (json) {
      results.push_back(boost::json::object{{"check", c.name}, {"verdict", o.verdict}, {"words", o.words}});
    } else {
      std::cout << o.verdict << std::string(7 - o.verdict.size(), ' ') << c.name << (o.words.empty() ? "" : ": " + o.words) << "\n" << std::flush;
    }
  }
  if (json) std::cout << boost::json::object{{"file", file}, {"checks", std::move(results)}} << "\n";
  return failed ? 1 : 0;
}
