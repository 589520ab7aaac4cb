// A connection to the world's store, as c10d's process groups use stores.
#pragma once

#include "dist/store_message.h"
#include "dist/store_server.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace reprise::dist {

/// Where the store is, who asks, and what it proves.
struct StoreAddress {
  std::string host;
  int port = 0;
  std::string secret = {};
  std::string who = {};  ///< "rank 2 of 4", for messages
};

class StoreClient final : public c10d::Store {
 public:
  using Bytes = std::vector<uint8_t>;
  using Keys = std::vector<std::string>;

  /// Waits for the server, up to `timeout`. Throws if nobody listens, or without the same secret.
  /// In rank 0, `server` lives as long as a client of this process.
  StoreClient(StoreAddress address,
              std::chrono::milliseconds timeout,
              std::shared_ptr<StoreServer> server = nullptr);

  c10::intrusive_ptr<c10d::Store> clone() override;
  void set(const std::string& key, const Bytes& value) override;
  Bytes compareSet(const std::string& key, const Bytes& expected, const Bytes& desired) override;
  Bytes get(const std::string& key) override;
  int64_t add(const std::string& key, int64_t value) override;
  bool deleteKey(const std::string& key) override;
  bool check(const Keys& keys) override;
  int64_t getNumKeys() override;
  void wait(const Keys& keys) override;
  void wait(const Keys& keys, const std::chrono::milliseconds& timeout) override;
  void append(const std::string& key, const Bytes& value) override;
  std::vector<Bytes> multiGet(const Keys& keys) override;
  void multiSet(const Keys& keys, const std::vector<Bytes>& values) override;
  bool hasExtendedApi() const override { return true; }

 private:
  StoreMessage ask(const StoreMessage& request);
  void send(const StoreMessage& message, Deadline deadline);

  StoreAddress address_;
  std::shared_ptr<StoreServer> server_;
  std::mutex mutex_;
  Socket socket_;
};

}  // namespace reprise::dist
