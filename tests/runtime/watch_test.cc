// A Watch reports the errors of a stream and of all streams that it has waited for.

#include "runtime/watch.h"

#include <memory>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

namespace trireme {
namespace {

struct Watched {
    explicit Watched(std::string name, std::string& seen)
        : watch(std::make_shared<Watch>([this, name, &seen] {
              seen += name;
              if (failed) throw std::runtime_error(name);
          })) {}
    bool failed = false;
    std::shared_ptr<Watch> watch;
};

// Compute and the two copy streams wait for each other in this way when the KV cache is streamed.
TEST(Watch, LooksOnceAtEachOfThoseThatWaitForEachOther) {
    std::string seen;
    Watched compute("c", seen), h2d("h", seen), d2h("d", seen);
    compute.watch->follow(h2d.watch);
    h2d.watch->follow(compute.watch);
    d2h.watch->follow(compute.watch);
    compute.watch->follow(d2h.watch);
    compute.watch->follow(h2d.watch);
    h2d.watch->follow(d2h.watch);

    compute.watch->look();
    EXPECT_EQ(seen.size(), 3u) << seen;
    EXPECT_EQ(seen[0], 'c');

    seen.clear();
    d2h.watch->look();
    EXPECT_EQ(seen.size(), 3u) << seen;
}

TEST(Watch, ThrowsWhatAStreamFurtherOnThrows) {
    std::string seen;
    Watched a("a", seen), b("b", seen), c("c", seen), stranger("s", seen);
    a.watch->follow(b.watch);
    b.watch->follow(c.watch);
    c.failed = stranger.failed = true;

    EXPECT_THROW(a.watch->look(), std::runtime_error);
    EXPECT_EQ(seen, "abc");

    c.failed = false;
    EXPECT_NO_THROW(a.watch->look());
}

TEST(Watch, ForgetsWhoIsGone) {
    std::string seen;
    Watched a("a", seen);
    {
        Watched b("b", seen);
        b.failed = true;
        a.watch->follow(b.watch);
        b.watch->follow(a.watch);
    }
    EXPECT_NO_THROW(a.watch->look());
    EXPECT_EQ(seen, "a");
}

}  // namespace
}  // namespace trireme
