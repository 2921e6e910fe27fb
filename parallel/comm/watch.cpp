// Two threads: one answers what others ask about this rank, one looks for transfers past their deadline. The
// first goes on answering while the second asks, since all ranks usually notice at once.
#include "parallel/comm/watch.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <sstream>
#include <thread>

#include "parallel/comm/culprit.h"
#include "parallel/comm/launch_environment.h"

namespace fivefold {

namespace {

using std::chrono::milliseconds;
constexpr milliseconds kRound{100};

// A descriptor that is closed in the end; -1: none.
class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  bool wait(short events, milliseconds limit) const {
    pollfd entry{fd_, events, 0};
    return ::poll(&entry, 1, static_cast<int>(limit.count())) > 0;
  }

 private:
  int fd_;
};

struct Addresses {
  addrinfo* first = nullptr;
  Addresses(const char* host, const std::string& port, int flags) {
    addrinfo hints{};
    hints.ai_family = AF_INET;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = flags;
    if (getaddrinfo(host, port.c_str(), &hints, &first) != 0) first = nullptr;
  }
  ~Addresses() {
    if (first) freeaddrinfo(first);
  }
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;
};

Socket listening() {
  const Addresses any(nullptr, "0", AI_PASSIVE);
  FF_CHECK(any.first != nullptr, "no address to listen at");
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  FF_CHECK(socket && ::bind(socket.fd(), any.first->ai_addr, any.first->ai_addrlen) == 0 &&
               ::listen(socket.fd(), 128) == 0,
           "cannot listen for the other ranks' watch");
  return socket;
}

std::string port_of(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  std::array<char, NI_MAXSERV> port{};
  auto* const at = reinterpret_cast<sockaddr*>(&address);
  FF_CHECK(::getsockname(socket.fd(), at, &length) == 0 &&
               getnameinfo(at, length, nullptr, 0, port.data(), port.size(), NI_NUMERICSERV) == 0,
           "a listening socket has no port");
  return port.data();
}

// Everything the other end sends; what has come by the time limit otherwise.
std::string read_all(const Socket& socket, milliseconds limit) {
  std::string text;
  std::array<char, 1 << 14> chunk;
  while (socket.wait(POLLIN, limit)) {
    const auto n = ::read(socket.fd(), chunk.data(), chunk.size());
    if (n <= 0) break;
    text.append(chunk.data(), static_cast<std::size_t>(n));
  }
  return text;
}

void write_all(const Socket& socket, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const auto n = ::send(socket.fd(), text.data() + done, text.size() - done, MSG_NOSIGNAL);
    if (n <= 0) return;
    done += static_cast<std::size_t>(n);
  }
}

// "1.2.3.4" of each interface that leads out of this host.
std::vector<std::string> own_addresses() {
  std::vector<std::string> all;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return all;
  for (const auto* each = first; each; each = each->ifa_next) {
    std::array<char, NI_MAXHOST> text{};
    const bool out =
        each->ifa_addr && each->ifa_addr->sa_family == AF_INET && !(each->ifa_flags & IFF_LOOPBACK);
    if (out && getnameinfo(each->ifa_addr, sizeof(sockaddr_in), text.data(), text.size(), nullptr, 0,
                           NI_NUMERICHOST) == 0)
      all.emplace_back(text.data());
  }
  ::freeifaddrs(first);
  return all;
}

// What is told at an address; empty where nobody answers in time.
std::string told_at(const std::string& address, const std::string& port, milliseconds limit) {
  const Addresses found(address.c_str(), port, AI_NUMERICHOST);
  if (!found.first) return {};
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  ::connect(socket.fd(), found.first->ai_addr, found.first->ai_addrlen);
  return socket.wait(POLLOUT, limit) ? read_all(socket, limit) : "";
}

std::string own_place(const Socket& listener) {
  std::string place = host_name() + ' ' + port_of(listener);
  for (const auto& address : own_addresses()) place += ' ' + address;
  return place;
}

// Asks the rank at `place`, as own_place gives it. Hosts may have equal addresses on networks of their own,
// so an answer starts with the rank that gives it.
RankReport ask(int rank, const std::string& place, milliseconds limit) {
  std::istringstream words(place);
  std::string host, port;
  words >> host >> port;
  std::vector<std::string> addresses;
  if (host == host_name()) addresses.emplace_back("127.0.0.1");
  for (std::string address; words >> address;) addresses.push_back(address);
  for (const auto& address : addresses) {
    const auto text = told_at(address, port, limit);
    const auto head = str(rank, '\n');
    if (text.starts_with(head)) return report_from(text.substr(head.size()));
  }
  return {};
}

// Where several ranks notice, one speaks: the others are ended before their turn.
void let_others_speak(int world_rank) {
  std::this_thread::sleep_for(milliseconds(1200 + 50 * std::min(world_rank, 15)));
}

void end_by_abort(Communicator& world, const std::string& why) {
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGALRM, SIG_DFL);
  ::alarm(10);
  world.abort(why);
}

}  // namespace

class Watch::Thread {
 public:
  Thread(Transport& transport, WatchOptions options)
      : transport_(transport), options_(std::move(options)), listener_(listening()) {
    places_ = transport_.world().gather_bytes(own_place(listener_));
    answering_ = std::jthread([this](const std::stop_token& stop) { answer(stop); });
    looking_ = std::jthread([this](const std::stop_token& stop) { look(stop); });
  }

 private:
  Ledger& ledger() const { return transport_.world().ledger(); }
  int world_rank() const { return transport_.world().rank(); }
  RankReport own_report() const { return {true, ledger().activity(), ledger().records()}; }

  void answer(const std::stop_token& stop) const {
    while (!stop.stop_requested()) {
      if (!listener_.wait(POLLIN, kRound)) continue;
      const Socket asker(::accept(listener_.fd(), nullptr, nullptr));
      if (asker) write_all(asker, str(world_rank(), '\n') + to_text(own_report()));
    }
  }

  void look(const std::stop_token& stop) {
    try {
      while (!stop.stop_requested()) {
        std::this_thread::sleep_for(kRound);
        transport_.poll();
        if (const auto stuck = overdue(); stuck && !stop.stop_requested()) return judge(*stuck);
      }
    } catch (const Error& error) {
      if (stop.stop_requested()) return;
      if (world_rank() > 0) let_others_speak(world_rank());
      end(error.what());
    }
  }

  std::optional<LedgerRecord> overdue() const {
    const auto now = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
    const auto limit = options_.deadline(ledger().activity()) / std::chrono::nanoseconds(1);
    for (auto& record : ledger().records())
      if (record.done_ns == 0 && now - record.enqueued_ns > limit) return std::move(record);
    return std::nullopt;
  }

  void judge(const LedgerRecord& stuck) const {
    std::vector<RankReport> reports;
    for (int rank = 0; rank < static_cast<int>(places_.size()); ++rank)
      reports.push_back(rank == world_rank()
                            ? own_report()
                            : ask(rank, places_[static_cast<std::size_t>(rank)], options_.answer));
    const auto limit = options_.deadline(ledger().activity());
    if (first_waiting(reports) != world_rank()) let_others_speak(world_rank());
    end(str("a transfer did not end within ", static_cast<double>(limit.count()) / 1000,
            " s: ", name_culprit(stuck, world_rank(), reports)));
  }

  void end(const std::string& why) const {
    if (options_.end) return options_.end(why);
    end_by_abort(transport_.world(), why);
  }

  Transport& transport_;
  WatchOptions options_;
  Socket listener_;
  std::vector<std::string> places_;  // by world rank
  std::jthread answering_, looking_;
};

Watch::Watch(Transport& transport, WatchOptions options)
    : thread_(std::make_unique<Thread>(transport, std::move(options))) {}
Watch::~Watch() = default;

}  // namespace fivefold
