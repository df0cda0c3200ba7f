// Memory of the pretended device: it lies in main memory, and is counted as a card's is.
#pragma once
#include <ATen/EmptyTensor.h>
#include <c10/core/Allocator.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_set>

namespace pretended {

const c10::Device THE_DEVICE(c10::DeviceType::CUDA, 0);
constexpr size_t GRAIN = 512;  // bytes: CUDA's caching allocator rounds every request up to it

inline std::atomic<int64_t> bytes_now{0}, bytes_at_peak{0};

// A forked child cannot use a card that its parent has used.
inline const pid_t OWNER = getpid();
inline void require_owner() {
  TORCH_CHECK(getpid() == OWNER, "CUDA error: initialization error");
}

inline size_t round_up(size_t bytes) { return (bytes + GRAIN - 1) / GRAIN * GRAIN; }

struct Block {
  void* start;
  int64_t bytes;
};

inline void release(void* context) {
  auto* block = static_cast<Block*>(context);
  bytes_now -= block->bytes;
  std::free(block->start);
  delete block;
}

struct DeviceAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t wanted) override {
    require_owner();
    if (wanted == 0) return {nullptr, nullptr, &release, THE_DEVICE};
    const auto bytes = static_cast<int64_t>(round_up(wanted));
    auto* block = new Block{std::aligned_alloc(GRAIN, bytes), bytes};
    TORCH_CHECK(block->start, "CUDA out of memory");
    // Whoever reads what was never written gets nan, not a zero that happens to be right.
    std::memset(block->start, 0xFF, bytes);
    const int64_t now = bytes_now += bytes;
    for (int64_t peak = bytes_at_peak; peak < now;)
      if (bytes_at_peak.compare_exchange_weak(peak, now)) break;
    return {block->start, block, &release, THE_DEVICE};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
};
inline DeviceAllocator device_memory;

// Pinned memory is the CPU's; only whether a pointer is in it has to be known.
struct PinnedAllocator final : c10::Allocator {
  inline static std::mutex lock;
  inline static std::unordered_set<const void*> blocks;
  static void unpin(void* start) {
    std::lock_guard<std::mutex> held(lock);
    blocks.erase(start);
    std::free(start);
  }
  static bool holds(const void* start) {
    std::lock_guard<std::mutex> held(lock);
    return blocks.count(start) > 0;
  }
  c10::DataPtr allocate(size_t wanted) override {
    std::lock_guard<std::mutex> held(lock);
    void* start = std::aligned_alloc(GRAIN, round_up(wanted + 1));
    blocks.insert(start);
    return {start, start, &unpin, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &unpin; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
};
inline PinnedAllocator pinned_memory;

// cuBLAS keeps a workspace for every thread that multiplies, taken from the same allocator:
// two pieces of 4096 KiB and eight of 16 KiB (PyTorch documentation, "CUDA semantics").
inline void take_workspace() {
  constexpr size_t BYTES = (2 * 4096 + 8 * 16) * 1024;
  thread_local auto* kept = new c10::DataPtr(device_memory.allocate(BYTES));
  (void)kept;
}

}  // namespace pretended
