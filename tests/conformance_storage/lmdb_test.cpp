// What a backend on disk must survive and refuse: kills, other openers, strange files, a full map.
#include "loaded_storage.hpp"

#include <fstream>

#include <fcntl.h>
#include <lmdb.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {
long told_file_system = 0;  // 0: what is true
}

// The backend's library finds this one first: a program's own symbols go before those of the C library.
extern "C" __attribute__((visibility("default"))) int statfs(const char *path, struct statfs *out) noexcept {
  const int fd = open(path, O_PATH | O_CLOEXEC);
  if (fd < 0) return -1;
  const int rc = fstatfs(fd, out);
  close(fd);
  if (told_file_system != 0) out->f_type = static_cast<decltype(out->f_type)>(told_file_system);
  return rc;
}

namespace hive::conformance {
namespace {

std::string config(const std::string &path, int map = 8, int most = 64) {
  return R"({"path":")" + path + R"(","map_size_mb":)" + std::to_string(map) + R"(,"max_map_size_mb":)" + std::to_string(most) + R"(,"sync":true})";
}

class lmdb : public testing::Test {
 protected:
  temporary_directory directory;
  std::string path = directory.path() + "/deep/store";
  std::string data = path + "/data.mdb";

  // Writes one record and closes.
  void fill() {
    loaded_storage s("storage_lmdb", config(path));
    ASSERT_EQ(s.open(), HIVE_OK) << s.words;
    ASSERT_EQ(s.write({put("a", std::string(100'000, 'x'))}), HIVE_OK);
  }
  void refused(hive_status code, std::initializer_list<std::string> words) {
    loaded_storage s("storage_lmdb", config(path));
    EXPECT_EQ(s.open(), code);
    for (const auto &w : words) EXPECT_NE(s.words.find(w), std::string::npos) << s.words;
    std::optional<stored> r;
    EXPECT_EQ(s.read("a", r), HIVE_E_UNAVAILABLE);
  }
};

// Runs body in a child that opens what it needs itself; answers its pid.
template <class F>
pid_t child(F &&body) {
  const pid_t pid = fork();
  if (pid == 0) {
    body();
    _exit(0);
  }
  return pid;
}

TEST_F(lmdb, keeps_records_over_a_restart_in_a_private_directory) {
  fill();
  loaded_storage s("storage_lmdb", config(path));
  ASSERT_EQ(s.open(), HIVE_OK) << s.words;
  EXPECT_EQ(s.value("a"), std::string(100'000, 'x'));
  struct stat st {};
  ASSERT_EQ(stat(path.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0750u);
  EXPECT_TRUE(s.log.empty()) << s.log[0];
}

TEST_F(lmdb, erases_its_data_at_the_first_open_when_told_to) {
  fill();
  std::ofstream(path + "/of the operator") << "x";
  const std::string erasing = R"({"path":")" + path + R"(","reset":true})";
  {
    loaded_storage s("storage_lmdb", erasing);
    ASSERT_EQ(s.open(), HIVE_OK) << s.words;
    EXPECT_EQ(s.value("a"), std::nullopt);
    ASSERT_EQ(s.write({put("b", "kept")}), HIVE_OK);
    s.close();
    ASSERT_EQ(s.open(), HIVE_OK) << s.words;
    EXPECT_EQ(s.value("b"), "kept");
  }
  EXPECT_TRUE(std::filesystem::exists(path + "/of the operator"));
  std::ofstream(data, std::ios::trunc) << std::string(65536, '\xa5');
  loaded_storage s("storage_lmdb", erasing);
  EXPECT_EQ(s.open(), HIVE_OK) << "what was unreadable is gone too: " << s.words;
}

TEST_F(lmdb, erases_nothing_that_another_instance_has_open) {
  loaded_storage running("storage_lmdb", config(path));
  ASSERT_EQ(running.open(), HIVE_OK);
  ASSERT_EQ(running.write({put("a", "1")}), HIVE_OK);
  loaded_storage second("storage_lmdb", R"({"path":")" + path + R"(","reset":true})");
  EXPECT_EQ(second.open(), HIVE_E_UNAVAILABLE);
  EXPECT_NE(second.words.find("already open in this process"), std::string::npos) << second.words;
  running.close();
  ASSERT_EQ(running.open(), HIVE_OK) << running.words;
  EXPECT_EQ(running.value("a"), "1");
}

TEST_F(lmdb, holds_every_acknowledged_write_after_kill_9) {
  int acknowledged = 0;
  for (int round = 0; round < 4; ++round) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t pid = child([&] {
      loaded_storage s("storage_lmdb", config(path, 1));
      if (s.open() != HIVE_OK) _exit(1);
      for (int i = acknowledged;; ++i) {
        const std::string n = std::to_string(i);
        if (s.write({put("k" + n, n + std::string(2000, 'v')), add("count", 1), put("pair" + n, n)}) != HIVE_OK) _exit(2);
        if (write(ends[1], &i, sizeof i) != sizeof i) _exit(3);
      }
    });
    close(ends[1]);
    int last = -1;
    for (int seen = 0; seen < 40 + round * 25 && read(ends[0], &last, sizeof last) == sizeof last; ++seen) {}
    kill(pid, SIGKILL);
    while (read(ends[0], &last, sizeof last) == sizeof last) {}
    close(ends[0]);
    int status = 0;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child gave up: " << WEXITSTATUS(status);

    loaded_storage s("storage_lmdb", config(path, 1));
    ASSERT_EQ(s.open(), HIVE_OK) << s.words;
    for (int i = 0; i <= last; ++i) {
      const std::string n = std::to_string(i);
      ASSERT_EQ(s.value("k" + n), n + std::string(2000, 'v'));
      ASSERT_EQ(s.value("pair" + n), n);
    }
    // One more may have been committed and not yet acknowledged, and then wholly.
    const std::string next = std::to_string(last + 1);
    EXPECT_EQ(s.value("k" + next).has_value(), s.value("pair" + next).has_value());
    acknowledged = last + 1 + s.value("k" + next).has_value();
    ASSERT_EQ(static_cast<unsigned char>((*s.value("count"))[0]) + 256 * static_cast<unsigned char>((*s.value("count"))[1]), acknowledged);
  }
}

TEST_F(lmdb, refuses_a_second_process_and_names_its_pid) {
  int ready[2], done[2];
  ASSERT_EQ(pipe(ready) + pipe(done), 0);
  const pid_t pid = child([&] {
    close(done[1]);
    loaded_storage s("storage_lmdb", config(path));
    const char ok = s.open() == HIVE_OK ? 'y' : 'n';
    if (write(ready[1], &ok, 1) != 1) _exit(1);
    char c;
    while (read(done[0], &c, 1) > 0) {}
  });
  char ok = 0;
  ASSERT_EQ(read(ready[0], &ok, 1), 1);
  EXPECT_EQ(ok, 'y');
  refused(HIVE_E_UNAVAILABLE, {"in use by process " + std::to_string(pid), path});
  for (const int fd : {done[0], done[1], ready[0], ready[1]}) close(fd);
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  fill();  // the lock went with its holder
}

TEST_F(lmdb, refuses_a_second_instance_in_this_process) {
  loaded_storage first("storage_lmdb", config(path));
  ASSERT_EQ(first.open(), HIVE_OK);
  refused(HIVE_E_UNAVAILABLE, {"already open in this process", std::to_string(getpid())});
  ASSERT_EQ(first.write({put("a", "1")}), HIVE_OK);
  first.close();
  fill();
}

TEST_F(lmdb, is_not_used_across_a_fork) {
  loaded_storage s("storage_lmdb", config(path));
  ASSERT_EQ(s.open(), HIVE_OK);
  ASSERT_EQ(s.write({put("a", "1")}), HIVE_OK);
  const pid_t pid = child([&] {
    std::optional<stored> r;
    const bool refused = s.read("a", r) == HIVE_E_UNAVAILABLE && s.write({put("a", "2")}) == HIVE_E_UNAVAILABLE &&
                         s.words.find("fork") != std::string::npos;
    s.close();
    _exit(refused ? 0 : 1);
  });
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(s.value("a"), "1");
  ASSERT_EQ(s.write({put("b", "1")}), HIVE_OK);
  refused(HIVE_E_UNAVAILABLE, {"already open"});  // the child's close did not give our lock away
}

TEST_F(lmdb, refuses_a_truncated_file_before_it_can_kill_us) {
  for (const off_t length : {1, 100, 4096, 5000, 8192, 40'960}) {
    std::filesystem::remove_all(path);
    fill();
    ASSERT_EQ(truncate(data.c_str(), length), 0);
    refused(HIVE_E_CORRUPT, {data, length < 4096 ? "not an LMDB" : "truncated"});
  }
}

TEST_F(lmdb, takes_an_empty_file_for_a_new_store) {
  std::filesystem::create_directories(path);
  std::ofstream(data).close();
  fill();
}

TEST_F(lmdb, refuses_foreign_files) {
  std::filesystem::create_directories(path);
  std::ofstream(data) << std::string(20'000, 'z');
  refused(HIVE_E_CORRUPT, {"not an LMDB data file"});
  std::filesystem::remove(data);
  std::filesystem::create_directories(data);
  refused(HIVE_E_CORRUPT, {"not a regular file"});
}

TEST_F(lmdb, refuses_an_lmdb_file_of_another_program) {
  std::filesystem::create_directories(path);
  MDB_env *env = nullptr;
  MDB_txn *txn = nullptr;
  MDB_dbi main = 0;
  MDB_val key{3, const_cast<char *>("key")}, value{5, const_cast<char *>("value")};
  ASSERT_EQ(mdb_env_create(&env), 0);
  ASSERT_EQ(mdb_env_open(env, path.c_str(), 0, 0640), 0);
  ASSERT_EQ(mdb_txn_begin(env, nullptr, 0, &txn), 0);
  ASSERT_EQ(mdb_dbi_open(txn, nullptr, 0, &main), 0);
  ASSERT_EQ(mdb_put(txn, main, &key, &value, 0), 0);
  ASSERT_EQ(mdb_txn_commit(txn), 0);
  mdb_env_close(env);
  refused(HIVE_E_CORRUPT, {"another program or version", data});
}

TEST_F(lmdb, refuses_a_file_with_another_format_mark) {
  fill();
  std::string bytes;
  {
    std::ifstream in(data, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  const std::string mark = "hivenet-router storage 1";
  int found = 0;
  for (size_t at = bytes.find(mark); at != std::string::npos; at = bytes.find(mark, at + 1), ++found) bytes[at + mark.size() - 1] = '9';
  ASSERT_GT(found, 0);
  std::ofstream(data, std::ios::binary) << bytes;
  refused(HIVE_E_CORRUPT, {"another program or version"});
}

TEST_F(lmdb, refuses_a_path_that_is_no_directory) {
  std::ofstream(directory.path() + "/file") << "x";
  path = directory.path() + "/file";
  refused(HIVE_E_CONFIG, {"not a directory", path});
  path += "/store";
  refused(HIVE_E_CONFIG, {"cannot create the directory", "Not a directory"});
}

TEST_F(lmdb, refuses_a_directory_it_may_not_write) {
  std::filesystem::create_directories(path);
  chmod(path.c_str(), 0555);
  chmod((directory.path() + "/deep").c_str(), 0755);
  chmod(directory.path().c_str(), 0755);
  const pid_t pid = child([&] {
    if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) _exit(2);
    loaded_storage s("storage_lmdb", config(path));
    _exit(s.open() == HIVE_E_CONFIG && s.words.find("may not write") != std::string::npos && s.words.find(path) != std::string::npos ? 0 : 1);
  });
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(lmdb, grows_its_map_within_the_bound) {
  loaded_storage s("storage_lmdb", config(path, 1, 32));
  ASSERT_EQ(s.open(), HIVE_OK);
  for (int i = 0; i < 20; ++i) ASSERT_EQ(s.write({put("k" + std::to_string(i), std::string(1u << 20, 'v'))}), HIVE_OK) << s.words;
  EXPECT_GT(s.metric_adds["map_growths_total"], 0);
  EXPECT_EQ(s.metric_adds["map_full_total"], 0);
  EXPECT_EQ(std::filesystem::file_size(data), 32u << 20);
  s.close();
  loaded_storage again("storage_lmdb", config(path, 1, 32));
  ASSERT_EQ(again.open(), HIVE_OK) << again.words;
  EXPECT_EQ(again.value("k19"), std::string(1u << 20, 'v'));
}

TEST_F(lmdb, counts_the_writes_that_found_it_full) {
  loaded_storage s("storage_lmdb", config(path, 1, 8));
  ASSERT_EQ(s.open(), HIVE_OK);
  EXPECT_EQ(s.write({put("k", std::string(16u << 20, 'v'))}), HIVE_E_EXHAUSTED);
  EXPECT_EQ(s.metric_adds["map_full_total"], 1);
}

// Naive variant: the slot of a reader that was killed is kept, and with it every page that has been freed since.
TEST_F(lmdb, a_sweep_forgets_readers_that_are_gone) {
  const auto reading = [this](auto &&then) {
    MDB_env *env = nullptr;
    if (mdb_env_create(&env) != 0 || mdb_env_set_maxdbs(env, 8) != 0 || mdb_env_open(env, path.c_str(), 0, 0600) != 0) _exit(101);
    then(env);
  };
  // How many readers another process sees in the table.
  const auto readers = [&] {
    const pid_t pid = child([&] {
      reading([](MDB_env *env) {
        int n = -1;  // the table's heading is a line, too
        mdb_reader_list(env,
                        [](const char *line, void *count) {
                          return *static_cast<int *>(count) += std::string_view(line).find("(no ") == std::string_view::npos, 0;
                        },
                        &n);
        _exit(std::max(n, 0));
      });
    });
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    return WEXITSTATUS(status);
  };
  loaded_storage s("storage_lmdb", config(path));
  ASSERT_EQ(s.open(), HIVE_OK);
  ASSERT_EQ(s.write({put("a", "1")}), HIVE_OK);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t pid = child([&] {
    reading([&](MDB_env *env) {
      MDB_txn *txn = nullptr;
      if (mdb_txn_begin(env, nullptr, MDB_RDONLY, &txn) != 0 || write(ends[1], "r", 1) != 1) _exit(102);
      for (;;) pause();
    });
  });
  close(ends[1]);
  char ready = 0;
  ASSERT_EQ(read(ends[0], &ready, 1), 1);
  close(ends[0]);
  const int with_it = readers();
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  EXPECT_EQ(readers(), with_it) << "it left its slot behind";
  ASSERT_EQ(s.sweep(), HIVE_OK);
  EXPECT_EQ(readers(), with_it - 1);
}

TEST_F(lmdb, opens_a_store_larger_than_its_bound_and_says_so) {
  {
    loaded_storage s("storage_lmdb", config(path, 8, 32));
    ASSERT_EQ(s.open(), HIVE_OK);
    ASSERT_EQ(s.write({put("big", std::string(6u << 20, 'v'))}), HIVE_OK);
  }
  loaded_storage s("storage_lmdb", config(path, 1, 2));
  ASSERT_EQ(s.open(), HIVE_OK) << s.words;
  ASSERT_EQ(s.log.size(), 1u);
  EXPECT_NE(s.log[0].find("max_map_size_mb"), std::string::npos);
  EXPECT_EQ(s.value("big"), std::string(6u << 20, 'v'));
}

// Naive variant: the file system is known and nobody is told.
TEST_F(lmdb, warns_of_a_directory_on_a_network_file_system) {
  for (const auto &[type, name] : {std::pair(0x6969L, "(NFS)"), std::pair(0xEF53L, "")}) {
    told_file_system = type;
    loaded_storage s("storage_lmdb", config(path));
    ASSERT_EQ(s.open(), HIVE_OK) << s.words;
    told_file_system = 0;
    ASSERT_EQ(s.log.size(), *name != '\0' ? 1u : 0u);
    if (s.log.empty()) continue;
    for (const std::string &words : {path, std::string(name), std::string("use a local disk")})
      EXPECT_NE(s.log[0].find(words), std::string::npos) << s.log[0];
  }
}

TEST_F(lmdb, refuses_bounds_that_contradict_each_other_at_creation) {
  const loaded_storage s("storage_lmdb", config(path, 64, 8));
  EXPECT_EQ(s.created, HIVE_E_CONFIG);
  EXPECT_NE(s.words.find("map_size_mb: 64"), std::string::npos) << s.words;
}

}  // namespace
}  // namespace hive::conformance
