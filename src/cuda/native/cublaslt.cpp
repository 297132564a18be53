// Matrix products by cuBLASLt. It counts columns first: what is row-major [M, N] here is its
// column- major N x M. So y^T = w x^T: its A is w, K x N and transposed; its B is x, K x M; its D
// is y, N x M.
#include <fmt/format.h>

#include <map>
#include <tuple>

#include "cuda/dense_product.h"
#include "cuda/native/cublaslt_api.h"
#include "cuda/native/shared_library.h"

namespace millrace::cuda {
namespace {

using namespace cublaslt;

struct Library {
  Create* create = nullptr;
  Destroy* destroy = nullptr;
  GetStatusString* get_status_string = nullptr;
  DescCreate* desc_create = nullptr;
  DescDestroy* desc_destroy = nullptr;
  DescSetAttribute* desc_set_attribute = nullptr;
  LayoutCreate* layout_create = nullptr;
  LayoutDestroy* layout_destroy = nullptr;
  PreferenceCreate* preference_create = nullptr;
  PreferenceDestroy* preference_destroy = nullptr;
  PreferenceSetAttribute* preference_set_attribute = nullptr;
  GetHeuristic* get_heuristic = nullptr;
  Matmul* matmul = nullptr;
};

Result<Library> load_library() {
  const Result<SharedLibrary> shared =
      SharedLibrary::open({"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13"});
  if (!shared) {
    return not_found(fmt::format("no cuBLASLt for CUDA 13: {}", shared.error().message));
  }
  Library library;
  const Result<void> found[] = {
      shared->find("cublasLtCreate", library.create),
      shared->find("cublasLtDestroy", library.destroy),
      shared->find("cublasLtGetStatusString", library.get_status_string),
      shared->find("cublasLtMatmulDescCreate", library.desc_create),
      shared->find("cublasLtMatmulDescDestroy", library.desc_destroy),
      shared->find("cublasLtMatmulDescSetAttribute", library.desc_set_attribute),
      shared->find("cublasLtMatrixLayoutCreate", library.layout_create),
      shared->find("cublasLtMatrixLayoutDestroy", library.layout_destroy),
      shared->find("cublasLtMatmulPreferenceCreate", library.preference_create),
      shared->find("cublasLtMatmulPreferenceDestroy", library.preference_destroy),
      shared->find("cublasLtMatmulPreferenceSetAttribute", library.preference_set_attribute),
      shared->find("cublasLtMatmulAlgoGetHeuristic", library.get_heuristic),
      shared->find("cublasLtMatmul", library.matmul),
  };
  for (const Result<void>& result : found) {
    if (!result) return result.error();
  }
  return library;
}

// As check_cuda() for a CUDA call.
void check(const Library& library, Status status, std::string_view call) {
  if (status == kSuccess) return;
  const std::string message =
      fmt::format("CUDA device failed: {}: {}", call, library.get_status_string(status));
  CHECK(status == kSuccess, message);
}

// What one shape's call takes: its descriptors, and once chosen its algorithm. Owns them.
class Operation {
 public:
  Operation(const Library& library, const DenseShape& shape) : library_(library) {
    const DataType output = shape.output == ProductOutput::kFloat32 ? kFloat32 : kBFloat16;
    check(library, library.desc_create(&desc_, kComputeFloat32, kFloat32), "MatmulDescCreate");
    set(kTransA, kTransposed);
    set(kTransB, kPlain);
    if (shape.has_bias) {
      set(kEpilogue, kBias);
      set(kBiasDataType, output);
    }
    const auto num_rows = static_cast<uint64_t>(shape.num_rows);
    const auto num_inputs = static_cast<uint64_t>(shape.num_inputs);
    const auto num_outputs = static_cast<uint64_t>(shape.num_outputs);
    w_ = layout(kBFloat16, num_inputs, num_outputs);
    x_ = layout(kBFloat16, num_inputs, num_rows);
    y_ = layout(output, num_outputs, num_rows);
  }

  ~Operation() {
    for (Layout* layout : {w_, x_, y_}) library_.layout_destroy(layout);
    library_.desc_destroy(desc_);
  }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // The first that the library names for a workspace of so many bytes; nullopt: it names none.
  std::optional<Algorithm> choose(Handle* handle, uint64_t num_workspace_bytes) const {
    Preference* preference = nullptr;
    check(library_, library_.preference_create(&preference), "MatmulPreferenceCreate");
    // Partial sums of a split K are float32, added in one order, whatever the output's type.
    const uint32_t schemes = kReduceInComputeType;
    for (const auto& [attribute, value, num_bytes] :
         {std::tuple<PreferenceAttribute, const void*, size_t>(
              kMaxWorkspaceBytes, &num_workspace_bytes, sizeof(num_workspace_bytes)
          ),
          std::tuple<PreferenceAttribute, const void*, size_t>(
              kReductionSchemeMask, &schemes, sizeof(schemes)
          )}) {
      const Status status =
          library_.preference_set_attribute(preference, attribute, value, num_bytes);
      check(library_, status, "MatmulPreferenceSetAttribute");
    }
    HeuristicResult result = {};
    int num_found = 0;
    const Status status =
        library_.get_heuristic(handle, desc_, w_, x_, y_, y_, preference, 1, &result, &num_found);
    library_.preference_destroy(preference);
    if (status != kSuccess || num_found == 0 || result.state != kSuccess) return std::nullopt;
    return result.algorithm;
  }

  void run(
      Handle* handle,
      StreamHandle stream,
      const DenseProduct& product,
      const Algorithm& algorithm,
      DenseWorkspace workspace
  ) {
    if (product.shape.has_bias) set(kBiasPointer, product.bias);
    const float one = 1.0f;
    const float zero = 0.0f;
    const Status status = library_.matmul(
        handle,
        desc_,
        &one,
        product.w,
        w_,
        product.x,
        x_,
        &zero,
        product.y,
        y_,
        product.y,
        y_,
        &algorithm,
        workspace.device,
        workspace.num_bytes,
        stream.native
    );
    check(library_, status, "cublasLtMatmul");
  }

 private:
  template <class T>
  void set(DescAttribute attribute, T value) {
    const Status status = library_.desc_set_attribute(desc_, attribute, &value, sizeof(value));
    check(library_, status, "MatmulDescSetAttribute");
  }

  Layout* layout(DataType type, uint64_t num_rows, uint64_t num_columns) const {
    Layout* layout = nullptr;
    const Status status = library_.layout_create(
        &layout, type, num_rows, num_columns, static_cast<int64_t>(num_rows)
    );
    check(library_, status, "MatrixLayoutCreate");
    return layout;
  }

  const Library& library_;
  Desc* desc_ = nullptr;
  Layout* w_ = nullptr;
  Layout* x_ = nullptr;
  Layout* y_ = nullptr;
};

class CublasLtProducts : public DenseProducts {
 public:
  CublasLtProducts(const Library& library, Handle* handle, DenseWorkspace workspace)
      : library_(library), handle_(handle), workspace_(workspace) {}
  ~CublasLtProducts() override { library_.destroy(handle_); }

  Result<void> prepare(const DenseShape& shape) override {
    DenseShape bucket = shape;
    bucket.num_rows = dense_row_bucket(shape.num_rows);
    const Key key = key_of(shape);
    if (algorithms_.contains(key)) return {};
    const std::optional<Algorithm> algorithm =
        Operation(library_, bucket).choose(handle_, workspace_.num_bytes);
    if (!algorithm) {
      return unsupported(fmt::format(
          "cuBLASLt has no algorithm for a product of {} rows, {} inputs and {} outputs",
          bucket.num_rows,
          bucket.num_inputs,
          bucket.num_outputs
      ));
    }
    algorithms_.emplace(key, *algorithm);
    return {};
  }

  void run(StreamHandle stream, const DenseProduct& product) override {
    check_dense_product(product);
    const auto algorithm = algorithms_.find(key_of(product.shape));
    CHECK(algorithm != algorithms_.end(), "a product that was not prepared");
    Operation(library_, product.shape).run(handle_, stream, product, algorithm->second, workspace_);
  }

 private:
  using Key = std::tuple<int32_t, int32_t, int32_t, ProductOutput, bool>;
  static Key key_of(const DenseShape& shape) {
    return {
        dense_row_bucket(shape.num_rows),
        shape.num_inputs,
        shape.num_outputs,
        shape.output,
        shape.has_bias};
  }

  const Library library_;
  Handle* const handle_;
  const DenseWorkspace workspace_;
  std::map<Key, Algorithm> algorithms_;
};

}  // namespace

Result<std::unique_ptr<DenseProducts>> open_dense_products(DenseWorkspace workspace) {
  const Result<Library> library = load_library();
  if (!library) return library.error();
  Handle* handle = nullptr;
  const Status status = library->create(&handle);
  if (status != kSuccess) {
    return Error{
        ErrorCode::kInternal,
        fmt::format("cuBLASLt does not start: {}", library->get_status_string(status))};
  }
  return std::unique_ptr<DenseProducts>(
      std::make_unique<CublasLtProducts>(*library, handle, workspace)
  );
}

}  // namespace millrace::cuda
