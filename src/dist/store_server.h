// The store of a world, in the process of rank 0: keys and values that all processes read and write
// while they meet and when one of them fails.
//
// Why not c10d's TCPStore: it listens at all interfaces and answers everybody. This one listens at
// one address and answers only those who have proved that they know the secret (handshake.h); a
// stranger can make it read 64 bytes.
#pragma once

#include "dist/socket.h"

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <chrono>
#include <list>
#include <string>
#include <thread>

namespace reprise::dist {

class StoreServer {
 public:
  /// Serves the connections of `listener` in a thread of its own until it is destroyed.
  StoreServer(Socket listener, std::string secret);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

 private:
  struct Connection {
    Socket socket;
    std::string nonce;
    Deadline proof_until;
    bool is_proved = false;
    bool is_ending = false;  ///< closed once its answer is sent
    std::string in = {}, out = {};
  };

  void serve();
  void accept_all();
  /// These return false once the connection is to be closed.
  bool read(Connection& connection);
  bool write(Connection& connection) const;
  bool take_proof(Connection& connection) const;

  Socket listener_;
  std::string secret_;
  Socket stop_reader_, stop_writer_;
  c10::intrusive_ptr<c10d::HashStore> values_;
  std::list<Connection> connections_;  ///< oldest first; used by the thread only
  Deadline accepts_from_ = {};         ///< after descriptors have run out
  std::thread thread_;
};

}  // namespace reprise::dist
