// A CUDA device that is none: its tensors lie in main memory, and the CPU's kernels compute on them.
//
// Every operator that arrives here is one that torch has sent to CUDA: autograd, autocast and the
// engine's threads have treated it as such. Its arguments are shown to the CPU's kernel as the CPU's,
// and what comes back is the device's again.
#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CPUAllocator.h>
#include <torch/library.h>

#include <string>

#include "device.h"

namespace pretended {
using at::Tensor;
using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::IValue;
using torch::jit::Stack;
using Names = std::unordered_set<std::string>;

std::atomic<int64_t> operations{0};
// Operators that take a CPU's tensor without dimensions beside the device's, as x + torch.tensor(1).
Names take_single_numbers;
// Operators whose indices may lie on the CPU.
const Names INDEXING = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_",
                        "aten::_unsafe_index", "aten::_unsafe_index_put"};
// cuBLAS multiplies no whole numbers.
const Names PRODUCTS = {"aten::mm", "aten::addmm", "aten::addmm_", "aten::bmm", "aten::baddbmm",
                        "aten::baddbmm_", "aten::mv", "aten::addmv", "aten::addmv_", "aten::dot",
                        "aten::vdot", "aten::addbmm", "aten::addr"};

// ---- one memory, seen from two sides

Tensor make_tensor(c10::Storage storage, DispatchKey key, const Tensor& like) {
  auto made = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), DispatchKeySet(key), like.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  return made;
}

Tensor seen_by_cpu(const Tensor& tensor) {
  const auto& storage = tensor.storage();
  c10::DataPtr borrowed(storage.mutable_data(), nullptr, &c10::detail::deleteNothing, c10::Device(c10::DeviceType::CPU));
  c10::Storage same(c10::Storage::use_byte_size_t(), storage.nbytes(), std::move(borrowed), c10::GetCPUAllocator(), /*resizable=*/true);
  auto alias = make_tensor(std::move(same), DispatchKey::CPU, tensor);
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) alias.unsafeGetTensorImpl()->set_wrapped_number(true);
  return alias;
}

c10::DataPtr copied_to_device(const c10::Storage& from) {
  auto data = device_memory.allocate(from.nbytes());
  if (from.nbytes()) std::memcpy(data.get(), from.data(), from.nbytes());
  return data;
}

Tensor moved_to_device(const Tensor& result) {
  const auto& from = result.storage();
  c10::Storage there(c10::Storage::use_byte_size_t(), from.nbytes(), copied_to_device(from), &device_memory, true);
  return make_tensor(std::move(there), DispatchKey::CUDA, result);
}

// A kernel may give the tensor that it writes to another size, or other memory.
void follow(const Tensor& tensor, const Tensor& alias) {
  const auto& from = alias.storage();
  if (from.data() != tensor.storage().data() || from.nbytes() > tensor.storage().nbytes()) {
    auto* storage = tensor.storage().unsafeGetStorageImpl();
    storage->set_data_ptr_noswap(copied_to_device(from));
    storage->set_nbytes(from.nbytes());
  }
  if (alias.sizes() != tensor.sizes() || alias.strides() != tensor.strides())
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(alias.sizes(), alias.strides(), alias.storage_offset());
}

// ---- one call of one operator

class Call {
 public:
  Call(const c10::OperatorHandle& op, Stack* stack, bool checked)
      : op(op), name(op.schema().name()), stack(stack), checked(checked) {
    const auto& schema = op.schema();
    const auto& overload = schema.overload_name();
    takes_numbers = !checked || take_single_numbers.count(overload.empty() ? name : name + "." + overload);
    given.assign(stack->end() - schema.arguments().size(), stack->end());
    torch::jit::drop(*stack, given.size());
  }

  void run() {
    for (size_t i = 0; i < given.size(); ++i) handed.push_back(show(given[i], i));
    TORCH_CHECK(!(checked && (on_device || made_there) && on_cpu),
                "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! (when "
                "checking argument for argument ", on_cpu, " in method wrapper_CUDA_", name, ")");
    if (PRODUCTS.count(name)) take_workspace();
    at::AutoDispatchBelowADInplaceOrView below;
    c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const auto back_to = widen_softmax();
    Stack inner(handed.begin(), handed.end());
    compute(&inner);
    if (back_to) inner[0] = inner[0].toTensor().to(*back_to);
    for (const auto& [tensor, alias] : lent) follow(tensor, alias);
    for (const auto& value : inner) torch::jit::push(*stack, bring_back(value));
  }

 private:
  // Return what the CPU's kernel gets in the place of one argument.
  IValue show(const IValue& value, size_t i) {
    const auto& argument = op.schema().arguments()[i];
    if (argument.type()->str().find("Generator") != std::string::npos) {
      TORCH_CHECK(value.isNone() || value.toGenerator().device() == THE_DEVICE,
                  "Expected a 'cuda' device type for generator but found 'cpu'");
      has_generator = true;
      return (value.isNone() ? default_generator() : value.toGenerator()).get<Generator>()->next();
    }
    if (value.isDevice() && value.toDevice().is_cuda()) {
      made_there = true;
      return c10::Device(c10::DeviceType::CPU);
    }
    if (value.isTensor()) return lend(value.toTensor(), argument.name(), false);
    if (value.isTensorList()) {
      std::vector<Tensor> list;
      for (const auto& tensor : value.toTensorVector()) list.push_back(lend(tensor, argument.name(), true));
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<Tensor>> list;
      for (std::optional<Tensor> tensor : value.toOptionalTensorList())
        list.push_back(tensor ? std::optional<Tensor>(lend(*tensor, argument.name(), true)) : std::nullopt);
      return list;
    }
    return value;
  }

  Tensor lend(const Tensor& tensor, const std::string& argument, bool in_list) {
    if (!tensor.defined()) return tensor;
    if (tensor.is_cuda()) {
      on_device = true;
      TORCH_CHECK(!(PRODUCTS.count(name) && c10::isIntegralType(tensor.scalar_type(), true)), "\"", name.substr(6),
                  "_cuda\" not implemented for '", c10::toString(tensor.scalar_type()), "'");
      lent.emplace_back(tensor, seen_by_cpu(tensor));
      return lent.back().second;
    }
    const bool may_differ = (in_list && INDEXING.count(name)) || (takes_numbers && tensor.dim() == 0);
    if (tensor.device().is_cpu() && !may_differ) on_cpu = argument.c_str();
    return tensor;
  }

  // CUDA's softmax makes float32 of 16 bits by itself, forward and backward; the CPU's does not.
  std::optional<at::ScalarType> widen_softmax() {
    const bool forward = name == "aten::_softmax" || name == "aten::_log_softmax";
    const bool backward = name == "aten::_softmax_backward_data" || name == "aten::_log_softmax_backward_data";
    if (forward && handed[2].toBool()) {
      handed[0] = handed[0].toTensor().to(at::kFloat);
      handed[2] = false;
    }
    if (!backward) return std::nullopt;
    const auto wanted = static_cast<at::ScalarType>(handed[3].toInt());
    const auto have = handed[0].toTensor().scalar_type();
    if (wanted == have) return std::nullopt;
    handed[3] = static_cast<int64_t>(have);
    return wanted;
  }

  void compute(Stack* inner) {
    const DispatchKeySet cpu(DispatchKey::CPU);
    if (has_generator || !op.hasTag(at::Tag::nondeterministic_seeded)) return op.redispatchBoxed(cpu, inner);
    // It draws from the CPU's default generator: that one gets the device's state for the moment.
    auto generator = at::detail::getDefaultCPUGenerator();
    struct Kept {
      at::Generator of;
      Tensor state;
      ~Kept() { of.set_state(state); }
    } kept{generator, generator.get_state()};
    generator.set_state(default_generator().get<Generator>()->next().get_state());
    op.redispatchBoxed(cpu, inner);
  }

  IValue bring_back(const IValue& value) {
    if (value.isTensor()) return bring_back(value.toTensor());
    if (!value.isTensorList()) return value;
    std::vector<Tensor> list;
    for (const auto& tensor : value.toTensorVector()) list.push_back(bring_back(tensor));
    return list;
  }
  Tensor bring_back(const Tensor& result) {
    if (!result.defined() || !result.device().is_cpu()) return result;
    for (const auto& value : given)
      if (value.isTensor() && value.toTensor().is_same(result)) return result;
    for (const auto& [tensor, alias] : lent)
      if (alias.is_same(result)) return tensor;
    for (const auto& [tensor, alias] : lent)
      if (result.storage().data() && result.storage().data() == alias.storage().data())
        return make_tensor(tensor.storage(), DispatchKey::CUDA, result);
    return on_device || made_there ? moved_to_device(result) : result;
  }

  const c10::OperatorHandle& op;
  const std::string& name;
  Stack* stack;
  const bool checked;
  bool takes_numbers = false, on_device = false, made_there = false, has_generator = false;
  const char* on_cpu = nullptr;  // the argument that lies there
  std::vector<IValue> given, handed;
  std::vector<std::pair<Tensor, Tensor>> lent;  // the device's tensor, and what the CPU sees of it
};

void call(const c10::OperatorHandle& op, Stack* stack, bool checked) {
  require_owner();
  ++operations;
  Call(op, stack, checked).run();
}
void compute(const c10::OperatorHandle& op, Stack* stack) { call(op, stack, /*checked=*/true); }
void copy(const c10::OperatorHandle& op, Stack* stack) { call(op, stack, /*checked=*/false); }

// ---- operators that make tensors, or look at one's memory in another way

using Ints = c10::SymIntArrayRef;
#define PLAIN(sizes) C10_AS_INTARRAYREF_SLOW(sizes)

Tensor empty(Ints size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>, std::optional<c10::Device>,
             std::optional<bool> pinned, std::optional<at::MemoryFormat> format) {
  TORCH_CHECK(!pinned.value_or(false), "Only dense CPU tensors can be pinned");
  return at::detail::empty_generic(PLAIN(size), &device_memory, DispatchKeySet(DispatchKey::CUDA),
                                   c10::dtype_or_default(dtype), format);
}
Tensor empty_strided(Ints size, Ints stride, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                     std::optional<c10::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(PLAIN(size), PLAIN(stride), &device_memory,
                                           DispatchKeySet(DispatchKey::CUDA), c10::dtype_or_default(dtype));
}
Tensor as_strided(const Tensor& self, Ints size, Ints stride, std::optional<c10::SymInt> offset) {
  const auto start = offset ? std::optional<int64_t>(offset->guard_int(__FILE__, __LINE__)) : std::nullopt;
  return at::native::as_strided_tensorimpl(self, PLAIN(size), PLAIN(stride), start);
}
Tensor view(const Tensor& self, Ints size) { return at::native::view(self, PLAIN(size)); }
Tensor reshape_alias(const Tensor& self, Ints size, Ints stride) {
  return at::native::_reshape_alias(self, PLAIN(size), PLAIN(stride));
}
Tensor unfold(const Tensor& self, int64_t dim, int64_t size, int64_t step) {
  return at::native::unfold(self, dim, size, step);
}
Tensor& set_slice(Tensor& self, at::Storage source, c10::SymInt offset, Ints size, Ints stride) {
  const auto start = offset.guard_int(__FILE__, __LINE__);
  return at::native::set_storage_cpu_(self, std::move(source), start, PLAIN(size), PLAIN(stride));
}
Tensor& set_storage(Tensor& self, at::Storage source) { return at::native::set_(self, std::move(source)); }
Tensor& set_tensor(Tensor& self, const Tensor& source) { return at::native::set_tensor_(self, source); }
// Attention by its definition: flash attention and its like are kernels of a real card.
int64_t plain_attention(const Tensor&, const Tensor&, const Tensor&, const std::optional<Tensor>&, double, bool,
                        std::optional<double>, bool) {
  return 0;
}

TORCH_LIBRARY_IMPL(_, CUDA, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&compute>());
}
// facts.py lists the same names, for those that are not to be sent straight to the CPU's kernel.
TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("as_strided", &as_strided);
  library.impl("view", &view);
  library.impl("_reshape_alias", &reshape_alias);
  library.impl("unfold", &unfold);
  library.impl("set_.source_Storage_storage_offset", &set_slice);
  library.impl("set_.source_Storage", &set_storage);
  library.impl("set_.source_Tensor", &set_tensor);
  library.impl("_fused_sdp_choice", &plain_attention);
  library.impl("copy_", torch::CppFunction::makeFromBoxedFunction<&copy>());
  library.impl("set_data", torch::CppFunction::makeFallthrough());
}
const bool registered = (c10::SetAllocator(c10::DeviceType::CUDA, &device_memory), true);

}  // namespace pretended

// ---- what facts.py calls

extern "C" {
int64_t pretended_bytes_now() { return pretended::bytes_now; }
int64_t pretended_bytes_at_peak() { return pretended::bytes_at_peak; }
void pretended_reset_peak() { pretended::bytes_at_peak = pretended::bytes_now.load(); }
int64_t pretended_operations() { return pretended::operations; }
void pretended_hand_out_default(bool yes) { pretended::hands_out_default = yes; }
void pretended_take_single_numbers(const char* name) { pretended::take_single_numbers.insert(std::string("aten::") + name); }
// An operator that has a kernel for the CPU goes to it at once, past what it is composed of elsewhere.
void pretended_send_straight(const char* name) {
  static torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
  library.impl(name, torch::CppFunction::makeFromBoxedFunction<&pretended::compute>());
}
}
