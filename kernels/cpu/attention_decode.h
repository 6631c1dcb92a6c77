#pragma once
/// Decode attention inside one tile, and the records that it writes.

#include <cstdint>

#include "kernels/cpu/kv_access.h"
#include "runtime/tensor.h"

namespace trireme {

/// A record: the softmax of one query head over part of the slots. [0] max, [1] sum, [kRecordHead ..] accumulator.
inline constexpr int64_t kRecordHead = 16;
static_assert(kRecordHead >= 2);

/// How decode attention multiplies: in f32; keys and values by dot products of bf16 pairs (attends_pairs()); q8_0 keys
/// by dot products of whole numbers, for which a query is rounded to 16 bits (kernels/cpu/byte_dots.h), and values in
/// f32. Keys that are rotated as they are read are always multiplied in f32.
enum class AttendBy : uint8_t { kFloats, kPairs, kWholes };
AttendBy attends_by(const LayerKv& kv);

/// One (tile, KV head) for the rows of one sequence. Query vector r * group + i is row r's i-th head of this KV head.
struct DecodeItem {
    const KvAccess* access;
    KvLayout layout;
    char* tile;
    int64_t head;                               // KV head
    int64_t first;                              // the tile's first slot
    int64_t rows, group;                        // rows of the sequence, query heads of this KV head
    int64_t shared;                             // leading slots of the tile that every row has cached, a multiple of 16
    const int32_t *slots, *cached, *ancestors;  // from the sequence's first row on
    int64_t ancestors_stride;
    int64_t window;        // slots that a row sees (RowsView)
    int64_t shift;         // this head's slots minus those of the rows, at most 0 (LayerKv::counts); else 0
    const int32_t* ranks;  // of the tile's slots, or null: keys need no rotation
    Matrix<const float> angles;
    AttendBy by;
    const float* q;         // [rows * group, query_floats()], from scale_query
    float* records;         // [rows * group, kRecordHead + dim_padded]
    float *weights, *tops;  // of the first query head in this tile, or null (AttentionReport)
    int64_t weights_stride, tops_stride;
    int64_t dim_padded;  // head_dim, rounded up to whole vectors of any target
    const char* next;    // keys the thread will read after this item, or null
};

/// Floats of scratch for attend_item.
int64_t attend_item_floats(int64_t dim_padded);
/// Fills the item's records. Records of rows that see nothing of the tile are undefined.
void attend_item(const DecodeItem& item, float* scratch);
/// Merges `partial` into `running`.
void merge_record(float* running, const float* partial, int64_t dim_padded);
/// out = accumulator / sum.
void finish_record(const float* record, float* out, int64_t dim);
/// Floats from one scaled query vector to the next, at most dim_padded.
int64_t query_floats(AttendBy by, int64_t dim, int64_t dim_padded);
/// to = scale * log2(e) * q, padded with zeros: as floats, as bf16 numbers, or as pack_bytes() writes them.
void scale_query(const float* q, float scale, AttendBy by, float* to, int64_t dim, int64_t dim_padded);

}  // namespace trireme
