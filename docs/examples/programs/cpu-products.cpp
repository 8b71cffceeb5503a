// A program that speaks lines of JSON with vkbench: products of f32 matrices, and copies.
//
//     g++ -O3 -march=native -o cpu-products cpu-products.cpp
//
// It reads a request a line, does the case for so many seconds, and answers with a line. Of a case
// of the catalogue it reads the inputs from files, and writes the output to one, which vkbench judges.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

using Floats = std::vector<float>;

// What stands behind the nth `"key": ` of a request. Use a library for JSON where you have one.
std::string field(const std::string &request, const std::string &key, int nth = 0) {
  size_t at = 0;
  for (int seen = 0; seen <= nth; seen++) {
    at = request.find("\"" + key + "\": ", at);
    if (at == std::string::npos) return "";
    at += key.size() + 4;
  }
  bool is_text = request[at] == '"';
  size_t end = request.find_first_of(is_text ? "\"" : ",}]", at + is_text);
  return request.substr(at + is_text, end - at - is_text);
}

Floats read(const std::string &path, size_t count) {
  Floats values(count);
  std::ifstream(path, std::ios::binary).read(reinterpret_cast<char *>(values.data()), count * 4);
  return values;
}

void write(const std::string &path, const Floats &values) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char *>(values.data()), values.size() * 4);
}

void answer(const std::string &verdict, const std::string &reason, const std::string &samples) {
  std::cout << "{\"verdict\": \"" << verdict << "\", \"reason\": \"" << reason << "\", \"samples\": ["
            << samples << "], \"clock\": \"host\", \"includes\": \"one call\"}" << std::endl;
}

// Seconds of a call, until all have lasted as long as was asked for: at most some 1,000 samples, each
// the mean of as many calls as last a thousandth of that.
std::string time_calls(double seconds, const std::function<void()> &call) {
  std::ostringstream samples;
  samples.precision(9);
  call();
  for (double spent = 0; spent < seconds;) {
    auto began = std::chrono::steady_clock::now();
    double took = 0;
    int calls = 0;
    for (; !calls || took < seconds / 1000; calls++) {
      call();
      took = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    }
    samples << (spent ? ", " : "") << took / calls;
    spent += took;
  }
  return samples.str();
}

// y = x weights^T
void multiply(const Floats &weights, const Floats &x, Floats &y, size_t m, size_t n, size_t k) {
  for (size_t column = 0; column < n; column++)
    for (size_t row = 0; row < m; row++) {
      float sums[8] = {};
      for (size_t i = 0; i < k; i++) sums[i % 8] += weights[row * k + i] * x[column * k + i];
      float sum = 0;
      for (float part : sums) sum += part;
      y[column * m + row] = sum;
    }
}

int main() {
  for (std::string request; std::getline(std::cin, request);) {
    std::string name = field(request, "case"), kernel = field(request, "kernel");
    double seconds = std::stod(field(request, "seconds"));
    if (name == "copy/64m") {
      std::vector<uint8_t> from(64 << 20, 1), to(64 << 20);
      std::string samples = time_calls(seconds, [&] { to = from; });
      bool is_right = to == from;
      answer(is_right ? "passed" : "wrong", is_right ? "" : "the copy differs", samples);
    } else if (kernel == "mul_mat_vec" && field(request, "format", 0) == "f32" &&
               field(request, "format", 1) == "f32") {
      size_t m = std::stoul(field(request, "m")), n = std::stoul(field(request, "n"));
      size_t k = std::stoul(field(request, "k"));
      Floats weights = read(field(request, "file", 0), m * k);
      Floats x = read(field(request, "file", 1), n * k), y(n * m);
      std::string samples = time_calls(seconds, [&] { multiply(weights, x, y, m, n, k); });
      write(field(request, "file", 2), y);
      answer("passed", "", samples);
    } else {
      answer("skipped", "it multiplies f32 matrices and copies, and does nothing else", "");
    }
  }
}
