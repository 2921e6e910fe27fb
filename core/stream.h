// Ordering of device work. A Stream is an in-order queue owned by whoever names it; an Event marks a point in
// one.
#pragma once
#include <memory>
#include <utility>

#include "core/types.h"

namespace fivefold {

// A point in a stream's order. A default Event has already happened (CPU streams run inline).
class Event {
 public:
  Event() = default;
  explicit Event(std::shared_ptr<void> native) : native_(std::move(native)) {}
  void* native() const { return native_.get(); }

 private:
  std::shared_ptr<void> native_;
};

class Stream {
 public:
  virtual ~Stream() = default;
  virtual Device device() const = 0;
  virtual Event record() = 0;
  // Work queued after this call starts after `event`. Does not block the host.
  virtual void wait(const Event& event) = 0;
  // Blocks the host until everything queued so far is done.
  virtual void synchronize() = 0;
  // Whether `event`, of any stream of this kind of device, has happened; and blocks the host until it has.
  virtual bool reached(const Event& event) = 0;
  virtual void await(const Event& event) = 0;
  // The device library's own handle, null on the CPU.
  virtual void* native() const { return nullptr; }
};

// Work runs inside the call that queues it.
class CpuStream final : public Stream {
 public:
  Device device() const override { return {}; }
  Event record() override { return {}; }
  void wait(const Event&) override {}
  void synchronize() override {}
  bool reached(const Event&) override { return true; }
  void await(const Event&) override {}
};

}  // namespace fivefold
