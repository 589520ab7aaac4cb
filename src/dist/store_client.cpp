#include "dist/store_client.h"

#include "dist/handshake.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

namespace reprise::dist {

namespace {

using Clock = std::chrono::steady_clock;
using Kind = StoreMessageKind;
using namespace std::chrono_literals;

std::string as_text(const StoreClient::Bytes& bytes) {
  return {bytes.begin(), bytes.end()};
}

StoreClient::Bytes as_bytes(const std::string& text) {
  return {text.begin(), text.end()};
}

}  // namespace

StoreClient::StoreClient(StoreAddress address,
                         std::chrono::milliseconds timeout,
                         std::shared_ptr<StoreServer> server)
    : Store(timeout), address_(std::move(address)), server_(std::move(server)) {
  const auto deadline = Clock::now() + timeout;
  const auto where = c10::str(address_.host, ":", address_.port);
  socket_ = connect_to(address_.host, address_.port, deadline);
  TORCH_CHECK(socket_.is_open(),
              "[world] ",
              address_.who,
              " found nobody at ",
              where,
              ", where rank 0 should listen. Is rank 0 running, and are MASTER_ADDR and "
              "MASTER_PORT the same for all and open in the firewall?");
  prove(socket_, address_.secret, address_.who, where, deadline);
}

c10::intrusive_ptr<c10d::Store> StoreClient::clone() {
  return c10::make_intrusive<StoreClient>(address_, timeout_, server_);
}

void StoreClient::send(const StoreMessage& message, Deadline deadline) {
  const auto bytes = encoded(message);
  if (!socket_.is_open() || !socket_.send(bytes, deadline)) {
    socket_.close();  // half of a message may have been sent
    C10_THROW_ERROR(DistNetworkError, "[world] the store of rank 0 does not respond");
  }
}

StoreMessage StoreClient::ask(const StoreMessage& request) {
  const std::scoped_lock lock(mutex_);
  const auto deadline = Clock::now() + std::max<std::chrono::milliseconds>(timeout_, 1s);
  send(request, deadline);
  std::array<char, kLengthBytes> length{};
  std::string bytes;
  bool is_there = socket_.receive(length.data(), length.size(), deadline);
  const size_t count = is_there ? decoded_length({length.data(), length.size()}) : 0;
  if (is_there && count <= kMaxMessageBytes) {
    bytes.resize(count);
    is_there = socket_.receive(bytes.data(), bytes.size(), deadline);
  }
  auto message = is_there ? decoded(bytes) : std::nullopt;
  if (!message) {
    socket_.close();  // a late answer would be taken for that of the next request
    C10_THROW_ERROR(DistNetworkError, "[world] the store of rank 0 does not answer");
  }
  TORCH_CHECK(message->kind != Kind::Failed, c10::Join("", message->texts));
  return std::move(*message);
}

void StoreClient::set(const std::string& key, const Bytes& value) {
  multiSet({key}, {value});
}

void StoreClient::multiSet(const Keys& keys, const std::vector<Bytes>& values) {
  TORCH_CHECK(keys.size() == values.size(), "[world] expected as many values as keys");
  StoreMessage message{Kind::MultiSet};
  for (size_t i = 0; i < keys.size(); ++i) {
    message.texts.push_back(keys[i]);
    message.texts.push_back(as_text(values[i]));
  }
  const std::scoped_lock lock(mutex_);
  send(message, Clock::now() + timeout_);
}

void StoreClient::append(const std::string& key, const Bytes& value) {
  ask({Kind::Append, {key, as_text(value)}});
}

StoreClient::Bytes StoreClient::compareSet(const std::string& key,
                                           const Bytes& expected,
                                           const Bytes& desired) {
  return as_bytes(ask({Kind::CompareSet, {key, as_text(expected), as_text(desired)}}).texts.at(0));
}

int64_t StoreClient::add(const std::string& key, int64_t value) {
  return std::stoll(ask({Kind::Add, {key, std::to_string(value)}}).texts.at(0));
}

bool StoreClient::deleteKey(const std::string& key) {
  return ask({Kind::Delete, {key}}).kind == Kind::Done;
}

bool StoreClient::check(const Keys& keys) {
  return ask({Kind::Check, keys}).kind == Kind::Done;
}

int64_t StoreClient::getNumKeys() {
  return std::stoll(ask({Kind::Count}).texts.at(0));
}

StoreClient::Bytes StoreClient::get(const std::string& key) {
  return std::move(multiGet({key}).front());
}

std::vector<StoreClient::Bytes> StoreClient::multiGet(const Keys& keys) {
  auto found = ask({Kind::MultiGet, keys});
  while (found.kind == Kind::Missing) {
    wait(keys);
    found = ask({Kind::MultiGet, keys});
  }
  TORCH_CHECK(found.texts.size() == keys.size(), "[world] the store answered with other keys");
  std::vector<Bytes> values;
  for (const auto& text : found.texts) {
    values.push_back(as_bytes(text));
  }
  return values;
}

void StoreClient::wait(const Keys& keys) {
  wait(keys, timeout_);
}

// Asks again and again: the server, one thread for all, never waits.
void StoreClient::wait(const Keys& keys, const std::chrono::milliseconds& timeout) {
  const auto deadline = Clock::now() + timeout;
  auto pause = std::chrono::microseconds(500);
  while (!check(keys)) {
    if (Clock::now() > deadline) {
      C10_THROW_ERROR(
          DistStoreError,
          c10::str("[world] waited too long for ", keys.front(), " in the store of rank 0"));
    }
    std::this_thread::sleep_for(pause);
    pause = std::min<std::chrono::microseconds>(2 * pause, 20ms);
  }
}

}  // namespace reprise::dist
