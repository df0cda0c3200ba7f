// What torch asks a device itself: its random numbers, its streams, and whether it is there.
#pragma once
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "memory.h"

namespace pretended {

// A seed and an offset, 16 bytes of state as CUDA's generator has; and other numbers than the CPU's.
struct Generator final : c10::GeneratorImpl {
  uint64_t seed_now = c10::default_rng_seed_val, offset = 0;

  Generator() : GeneratorImpl(THE_DEVICE, c10::DispatchKeySet(c10::DispatchKey::CUDA)) {}
  void set_current_seed(uint64_t seed) override { seed_now = seed, offset = 0; }
  uint64_t current_seed() const override { return seed_now; }
  void set_offset(uint64_t value) override { offset = value; }
  uint64_t get_offset() const override { return offset; }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom());
    return seed_now;
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    auto state = at::detail::empty_cpu({16}, at::kByte);
    const uint64_t both[2] = {seed_now, offset};
    std::memcpy(state.mutable_data_ptr(), both, sizeof both);
    return state.getIntrusivePtr();
  }
  void set_state(const c10::TensorImpl& state) override {
    TORCH_CHECK(state.device().is_cpu() && state.dtype() == caffe2::TypeMeta::Make<uint8_t>(),
                "RNG state must be a torch.ByteTensor");
    TORCH_CHECK(state.numel() == 16, "RNG state is wrong size");
    const auto* both = static_cast<const uint64_t*>(state.data());
    seed_now = both[0], offset = both[1];
  }
  Generator* clone_impl() const override {
    auto* copy = new Generator();
    copy->seed_now = seed_now, copy->offset = offset;
    return copy;
  }
  // One operator's numbers: the CPU's generator draws them, from a seed that only this device has.
  at::Generator next() {
    const auto mixed = (seed_now + 0x9E3779B97F4A7C15ull) ^ ((offset + 1) * 0xBF58476D1CE4E5B9ull);
    offset += 4;
    return at::detail::createCPUGenerator(mixed);
  }
};
inline at::Generator& default_generator() {
  static at::Generator the_one = at::make_generator<Generator>();
  return the_one;
}
// Python can only make new generators; while this is set it gets the device's own.
inline bool hands_out_default = false;

// One device, and one stream of it that is always done.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  static c10::Stream only_stream() { return c10::Stream(c10::Stream::UNSAFE, THE_DEVICE, 0); }
  c10::DeviceType type() const override { return c10::DeviceType::CUDA; }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::Device getDevice() const override { return THE_DEVICE; }
  c10::Device exchangeDevice(c10::Device) const override { return THE_DEVICE; }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.index() <= 0, "CUDA error: invalid device ordinal");
  }
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const override { return only_stream(); }
  c10::Stream getDefaultStream(c10::Device) const override { return only_stream(); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override { return only_stream(); }
  c10::Stream getNewStream(c10::Device, int) const override { return only_stream(); }
  c10::Stream exchangeStream(c10::Stream) const override { return only_stream(); }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void record(void**, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override {}
  void destroyEvent(void*, c10::DeviceIndex) const noexcept override {}
  void synchronizeDevice(c10::DeviceIndex) const override { require_owner(); }
};
C10_REGISTER_GUARD_IMPL(CUDA, Guard)

}  // namespace pretended

namespace at {  // where the macro below looks for what it registers

struct PretendedHooks final : CUDAHooksInterface {
  explicit PretendedHooks(CUDAHooksArgs) {}
  void init() const override { pretended::require_owner(); }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasCUDA() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  int getNumGPUs() const override { return 1; }
  DeviceIndex deviceCount() const override { return 1; }
  DeviceIndex current_device() const override { return 0; }
  DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice(DeviceIndex) const override {}
  DeviceIndex exchangeDevice(DeviceIndex) const override { return 0; }
  DeviceIndex maybeExchangeDevice(DeviceIndex) const override { return 0; }
  void deviceSynchronize(DeviceIndex) const override {}
  Device getDeviceFromPtr(void*) const override { return pretended::THE_DEVICE; }
  const Generator& getDefaultGenerator(DeviceIndex) const override {
    return pretended::default_generator();
  }
  Generator getNewGenerator(DeviceIndex) const override {
    return pretended::hands_out_default ? pretended::default_generator()
                                        : make_generator<pretended::Generator>();
  }
  c10::Allocator* getCUDADeviceAllocator() const override { return &pretended::device_memory; }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pretended::pinned_memory; }
  bool isPinnedPtr(const void* start) const override {
    return pretended::PinnedAllocator::holds(start);
  }
};
using CUDAHooks = PretendedHooks;
REGISTER_CUDA_HOOKS(CUDAHooks)

}  // namespace at
