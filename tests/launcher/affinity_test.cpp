// B82: launchers bind ranks to fewer cores than people expect; the run says so at its start.
#include "launcher/affinity.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace fivefold {
namespace {

TEST(Affinity, CountsTheMaskNotTheMachine) {
  const int all = usable_cores();
  ASSERT_GE(all, 1);
  int bound = 0;
  std::thread([&] {  // binds itself alone, as mpirun binds a rank
    cpu_set_t mask, before;
    sched_getaffinity(0, sizeof before, &before);
    CPU_ZERO(&mask);
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &before)) {
        CPU_SET(core, &mask);
        break;
      }
    sched_setaffinity(0, sizeof mask, &mask);
    bound = usable_cores();
  })
      .join();
  EXPECT_EQ(bound, 1);
  EXPECT_EQ(usable_cores(), all);
}

TEST(Affinity, WarnsOnlyWhenThreadsOutnumberCores) {
  EXPECT_EQ(affinity_warning(2, 2), "");
  EXPECT_EQ(affinity_warning(1, 8), "");
  const auto warning = affinity_warning(4, 1);
  EXPECT_NE(warning.find("train.threads=4 on 1 usable core"), std::string::npos) << warning;
  EXPECT_NE(warning.find("--bind-to none"), std::string::npos) << warning;
  EXPECT_NE(warning.find("srun -c 4"), std::string::npos) << warning;
}

}  // namespace
}  // namespace fivefold
