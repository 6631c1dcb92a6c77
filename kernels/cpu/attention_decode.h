#pragma once
/// Decode attention inside one tile, and the records that it writes.

#include <cstdint>

#include "kernels/cpu/kv_access.h"
#include "runtime/tensor.h"

namespace trireme {

/// A record: the softmax of one query head over part of the slots. [0] max, [1] sum, [kRecordHead ..] accumulator.
inline constexpr int64_t kRecordHead = 16;
static_assert(kRecordHead >= 2);

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
    bool pairs;             // attends_pairs, and no rotation
    const float* q;         // [rows * group, dim_padded], from scale_query
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
/// to = scale * log2(e) * q, padded with zeros; with `pairs`, bf16 numbers at the same address.
void scale_query(const float* q, float scale, bool pairs, float* to, int64_t dim, int64_t dim_padded);

}  // namespace trireme
