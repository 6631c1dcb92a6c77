#pragma once
/// Trace: spans of time of named operations, and the bytes they moved, for reports, --record and --trace. Totals are
/// always kept (two clock reads per span). Spans are kept after start() only; json() writes them for Perfetto.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme::trace {

/// The sums of all spans of one name.
struct Total {
    const char* name;
    uint64_t count, ns, bytes;  // number of spans, their nanoseconds, their bytes
};

/// Returns nanoseconds of the monotonic clock.
uint64_t now();
/// Returns milliseconds since `begin_ns`, a result of now().
inline double ms_since(uint64_t begin_ns) {
    return static_cast<double>(now() - begin_ns) * 1e-6;
}
/// A row of the trace: a thread, or a stream of a device. It has totals of 128 names at most; spans of further names
/// are not counted. Lanes are never freed.
struct Lane;
/// Names the calling thread's lane ("host" before), and returns it. `name` must be a literal.
Lane& name_lane(const char* name);
/// Adds a finished span of the calling thread. `name` must be a literal: totals are kept by its address.
void add(const char* name, uint64_t begin_ns, uint64_t end_ns, size_t bytes);
/// Makes a lane for work that runs on no thread, like that of a device's stream. One thread at a time adds to it.
Lane& make_lane(const char* name);
/// Adds `total` to the lane's total of that name, without a span. A device's operation that was not timed has 0 ns.
void count(Lane& lane, const Total& total);
/// Adds the span and the nanoseconds of an operation that was counted with 0 ns, when its time is known.
void add_time(Lane& lane, const char* name, uint64_t begin_ns, uint64_t end_ns, size_t bytes);
/// Returns whether spans are kept.
bool recording();

/// Returns sums over all lanes since reset_totals(), by name. Spans that are added at the same time may be counted in
/// part.
std::vector<Total> totals();
/// Returns the sum over all lanes of one name; zeros if there is none.
Total total(const char* name);
/// Like total(name), for one lane.
Total total(const Lane& lane, const char* name);
void reset_totals();

/// Keeps spans from now on, at most `max_spans` per lane; dropped() counts the others.
void start(size_t max_spans = 1u << 20);
/// Stops keeping spans and deletes those that were kept. Totals are unchanged.
void stop();
/// A span that was kept. `begin` and `end` are results of now().
struct Span {
    const char *lane, *name;
    uint64_t begin, end, bytes;
};
/// Returns the spans that began at `begin_ns` or later, lane by lane. Streams may add spans meanwhile.
std::vector<Span> spans(uint64_t begin_ns);
/// Returns the number of spans that were dropped since start(); 0 after stop().
size_t dropped();
/// Returns all spans as Chrome trace JSON. `rank` becomes the process id.
std::string json(int rank);

}  // namespace trireme::trace
