// cublaslt_api.h against the library's own header, while compiling. Left out of the build where
// that header is not installed.
#include <cublasLt.h>

#include <type_traits>

#include "cuda/native/cublaslt_api.h"

namespace millrace::cuda::cublaslt {
namespace {

template <class T>
constexpr bool is_int32 = sizeof(T) == sizeof(int32_t);

static_assert(kSuccess == static_cast<int>(CUBLAS_STATUS_SUCCESS));
static_assert(kFloat32 == static_cast<int>(CUDA_R_32F));
static_assert(kBFloat16 == static_cast<int>(CUDA_R_16BF));
static_assert(kComputeFloat32 == static_cast<int>(CUBLAS_COMPUTE_32F));
static_assert(kPlain == static_cast<int>(CUBLAS_OP_N));
static_assert(kTransposed == static_cast<int>(CUBLAS_OP_T));
static_assert(kNoEpilogue == static_cast<unsigned>(CUBLASLT_EPILOGUE_DEFAULT));
static_assert(kBias == static_cast<unsigned>(CUBLASLT_EPILOGUE_BIAS));
static_assert(kTransA == static_cast<int>(CUBLASLT_MATMUL_DESC_TRANSA));
static_assert(kTransB == static_cast<int>(CUBLASLT_MATMUL_DESC_TRANSB));
static_assert(kEpilogue == static_cast<int>(CUBLASLT_MATMUL_DESC_EPILOGUE));
static_assert(kBiasPointer == static_cast<int>(CUBLASLT_MATMUL_DESC_BIAS_POINTER));
static_assert(kBiasDataType == static_cast<int>(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE));
static_assert(kMaxWorkspaceBytes == static_cast<int>(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES));
static_assert(kReductionSchemeMask == static_cast<int>(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK));
static_assert(
    kReduceInComputeType == static_cast<unsigned>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)
);

static_assert(is_int32<cublasStatus_t> && is_int32<cudaDataType_t>);
static_assert(is_int32<cublasComputeType_t> && is_int32<cublasOperation_t>);
static_assert(is_int32<cublasLtEpilogue_t> && is_int32<cublasLtMatmulDescAttributes_t>);
static_assert(is_int32<cublasLtMatmulPreferenceAttributes_t>);

static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(HeuristicResult) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(
    offsetof(HeuristicResult, num_workspace_bytes) ==
    offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize)
);
static_assert(offsetof(HeuristicResult, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));

// The same number of arguments, each passed in the same way.
template <class Ours, class Theirs>
struct IsCalledAlike : std::false_type {};
template <class R1, class... A1, class R2, class... A2>
struct IsCalledAlike<R1(A1...), R2(A2...)> {
  static constexpr bool kSameCount = sizeof...(A1) == sizeof...(A2);
  template <class A, class B>
  static constexpr bool kAlike =
      sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>;
  static constexpr bool value = [] {
    if constexpr (kSameCount) {
      return kAlike<R1, R2> && (kAlike<A1, A2> && ...);
    } else {
      return false;
    }
  }();
};
static_assert(IsCalledAlike<Create, decltype(cublasLtCreate)>::value);
static_assert(IsCalledAlike<Destroy, decltype(cublasLtDestroy)>::value);
static_assert(IsCalledAlike<GetStatusString, decltype(cublasLtGetStatusString)>::value);
static_assert(IsCalledAlike<DescCreate, decltype(cublasLtMatmulDescCreate)>::value);
static_assert(IsCalledAlike<DescDestroy, decltype(cublasLtMatmulDescDestroy)>::value);
static_assert(IsCalledAlike<DescSetAttribute, decltype(cublasLtMatmulDescSetAttribute)>::value);
static_assert(IsCalledAlike<LayoutCreate, decltype(cublasLtMatrixLayoutCreate)>::value);
static_assert(IsCalledAlike<LayoutDestroy, decltype(cublasLtMatrixLayoutDestroy)>::value);
static_assert(IsCalledAlike<PreferenceCreate, decltype(cublasLtMatmulPreferenceCreate)>::value);
static_assert(IsCalledAlike<PreferenceDestroy, decltype(cublasLtMatmulPreferenceDestroy)>::value);
static_assert(
    IsCalledAlike<PreferenceSetAttribute, decltype(cublasLtMatmulPreferenceSetAttribute)>::value
);
static_assert(IsCalledAlike<GetHeuristic, decltype(cublasLtMatmulAlgoGetHeuristic)>::value);
static_assert(IsCalledAlike<Matmul, decltype(cublasLtMatmul)>::value);

}  // namespace
}  // namespace millrace::cuda::cublaslt
