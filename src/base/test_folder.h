// For tests: a folder, or a file, of one test's own, gone with it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "base/check.h"

namespace millrace {

class TestFolder {
 public:
  TestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "millrace-test-XXXXXX").string();
    CHECK(::mkdtemp(name.data()) != nullptr, "no folder for temporary files");
    folder_ = name;
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  std::string path() const { return folder_.string(); }
  std::string path(std::string_view name) const { return (folder_ / name).string(); }
  // Its path; folders that `name` goes through are made.
  std::string write(std::string_view name, std::string_view content) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }
  std::string read(std::string_view name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

 private:
  std::filesystem::path folder_;
};

class TestFile {
 public:
  explicit TestFile(std::string_view content) : path_(folder_.write("file", content)) {}

  const std::string& path() const { return path_; }

 private:
  TestFolder folder_;
  std::string path_;
};

}  // namespace millrace
