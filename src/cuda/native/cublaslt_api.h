// What is used of cuBLASLt's C interface (NVIDIA cuBLAS 13 documentation, chapter 3), declared here
// since its headers are 400 MB away where only the compiler was fetched. cublaslt_api_check.cpp
// compares it with them where they are there.
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace::cuda::cublaslt {

// Enumerators of the library's types, each passed as the 32-bit integer that a C enumeration is.
enum Status : int32_t { kSuccess = 0 };
enum DataType : int32_t { kFloat32 = 0, kBFloat16 = 14 };  // cudaDataType_t
enum ComputeType : int32_t { kComputeFloat32 = 68 };       // cublasComputeType_t
enum Operation : int32_t { kPlain = 0, kTransposed = 1 };  // cublasOperation_t
enum Epilogue : uint32_t { kNoEpilogue = 1, kBias = 4 };   // cublasLtEpilogue_t
enum DescAttribute : int32_t {                             // cublasLtMatmulDescAttributes_t
  kTransA = 3,
  kTransB = 4,
  kEpilogue = 7,
  kBiasPointer = 8,
  kBiasDataType = 26,
};
enum PreferenceAttribute : int32_t {  // cublasLtMatmulPreferenceAttributes_t
  kMaxWorkspaceBytes = 1,
  kReductionSchemeMask = 3,
};
enum ReductionScheme : uint32_t { kReduceInComputeType = 2 };  // cublasLtReductionScheme_t

struct Algorithm {  // cublasLtMatmulAlgo_t
  uint64_t data[8];
};
struct HeuristicResult {  // cublasLtMatmulHeuristicResult_t
  Algorithm algorithm;
  size_t num_workspace_bytes;
  Status state;
  float waves_count;
  int reserved[4];
};

// Opaque.
struct Handle;      // cublasLtHandle_t points to one
struct Desc;        // cublasLtMatmulDesc_t
struct Layout;      // cublasLtMatrixLayout_t
struct Preference;  // cublasLtMatmulPreference_t

// Function types, under the library's names without their prefix.
using Create = Status(Handle**);
using Destroy = Status(Handle*);
using GetStatusString = const char*(Status);
using DescCreate = Status(Desc**, ComputeType, DataType scale_type);
using DescDestroy = Status(Desc*);
using DescSetAttribute = Status(Desc*, DescAttribute, const void*, size_t);
using LayoutCreate =
    Status(Layout**, DataType, uint64_t num_rows, uint64_t num_columns, int64_t leading_dimension);
using LayoutDestroy = Status(Layout*);
using PreferenceCreate = Status(Preference**);
using PreferenceDestroy = Status(Preference*);
using PreferenceSetAttribute = Status(Preference*, PreferenceAttribute, const void*, size_t);
using GetHeuristic = Status(
    Handle*,
    Desc*,
    Layout* a,
    Layout* b,
    Layout* c,
    Layout* d,
    Preference*,
    int num_wanted,
    HeuristicResult*,
    int* num_found
);
using Matmul = Status(
    Handle*,
    Desc*,
    const void* alpha,
    const void* a,
    Layout*,
    const void* b,
    Layout*,
    const void* beta,
    const void* c,
    Layout*,
    void* d,
    Layout*,
    const Algorithm*,
    void* workspace,
    size_t num_workspace_bytes,
    void* stream
);

}  // namespace millrace::cuda::cublaslt
