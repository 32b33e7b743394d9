// Runs a target over every file of the directories and files named on the command line: what CI does with the corpora.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

namespace {
std::string current;  // named when a property breaks

bool run(const std::filesystem::path &file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) {
    std::fprintf(stderr, "cannot read %s\n", file.c_str());
    return false;
  }
  const std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(in), {}};
  current = file;
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  return true;
}
}  // namespace

extern "C" void __asan_set_death_callback(void (*)()) __attribute__((weak));

int main(int count, char **arguments) {
  const auto tell = [] { std::fprintf(stderr, "input: %s\n", current.c_str()); };
  if (__asan_set_death_callback != nullptr) __asan_set_death_callback(tell);
  size_t files = 0;
  for (int i = 1; i < count; ++i) {
    if (!std::filesystem::is_directory(arguments[i])) {
      if (!run(arguments[i])) return 1;
      ++files;
      continue;
    }
    for (const auto &entry : std::filesystem::directory_iterator(arguments[i])) {
      if (!run(entry.path())) return 1;
      ++files;
    }
  }
  std::printf("%zu inputs\n", files);
  return files > 0 ? 0 : 1;
}
