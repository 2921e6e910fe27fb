// What a ledger tells its observer, and that it tells nobody else.
#include <gtest/gtest.h>

#include "parallel/comm/ledger.h"

namespace fivefold {
namespace {

class Noted final : public LedgerObserver {
 public:
  void activity(std::string_view what) override { said.push_back(std::string(what)); }
  void action(std::string_view what, int stage, int micro_batch) override {
    said.push_back(std::string(what) + ' ' + std::to_string(stage) + ' ' + std::to_string(micro_batch));
  }
  void transfer(const LedgerRecord& record) override {
    said.push_back(record.group + " done");
    EXPECT_GE(record.done_ns, record.started_ns);
    EXPECT_EQ(record.stage, 1);
  }
  void device_begin(const LedgerRecord& record, Stream&) override {
    said.push_back(record.group + " begins");
  }
  void device_end(LedgerId, Stream&) override { said.push_back("ends"); }

  std::vector<std::string> said;
};

TEST(LedgerObserver, HearsOfActivitiesActionsAndTransfers) {
  Ledger ledger(0, 8);
  CpuStream stream;
  ledger.set_activity("before");
  const auto noted = std::make_shared<Noted>();
  ledger.observe(noted);
  ledger.set_activity("train/step");
  ledger.set_position(1, 2, "forward");
  LedgerRecord record;
  record.group = "tp";
  record.members = {0, 1};
  const auto id = ledger.enqueue(record);
  ledger.started(id);
  ledger.device_begin(id, stream);
  ledger.device_end(id, stream);
  ledger.done(id);
  ledger.done(id + 1);  // nobody's
  EXPECT_EQ(noted->said,
            (std::vector<std::string>{"train/step", "forward 1 2", "tp begins", "ends", "tp done"}));
  EXPECT_EQ(ledger.activity(), "train/step");
  ledger.observe(nullptr);
  ledger.set_activity("after");
  ledger.done(ledger.enqueue(record));
  EXPECT_EQ(noted->said.size(), 5u);
  EXPECT_EQ(ledger.activity(), "after");
}

}  // namespace
}  // namespace fivefold
