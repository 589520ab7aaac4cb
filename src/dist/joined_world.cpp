#include "dist/joined_world.h"

#include <reprise/dist/error_text.h>

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <chrono>
#include <exception>
#include <iomanip>
#include <sstream>
#include <utility>

namespace reprise::dist {

/// A collective of CPU tensors, queued for the worker.
struct JoinedWorld::Job {
  int64_t number;
  std::string what;
  Work work;
  std::mutex mutex;
  std::condition_variable changed;
  bool is_done = false;
  std::string error;

  void finish(std::string why) {
    const std::scoped_lock lock(mutex);
    error = std::move(why);
    is_done = true;
    work = nullptr;  // releases its tensors
    changed.notify_all();
  }
};

class JoinedWorld::Pending final : public Collective {
 public:
  /// `exchange` lives until all jobs are done.
  Pending(std::shared_ptr<Job> job, Exchange& exchange)
      : job_(std::move(job)), exchange_(exchange) {}
  void wait() override {
    constexpr auto kCheckInterval = std::chrono::seconds(1);
    std::unique_lock lock(job_->mutex);
    while (!job_->changed.wait_for(lock, kCheckInterval, [&] { return job_->is_done; })) {
      exchange_.check_connections();
    }
    TORCH_CHECK(job_->error.empty(), job_->error);
  }

 private:
  std::shared_ptr<Job> job_;
  Exchange& exchange_;
};

namespace {

/// A collective of GPU tensors. NCCL's own watchdog enforces the timeout.
class PendingOnGpu final : public Collective {
 public:
  explicit PendingOnGpu(c10::intrusive_ptr<c10d::Work> work) : work_(std::move(work)) {}
  void wait() override { work_->wait(); }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
};

std::string described(const char* kind, const std::string& what) {
  return c10::str(kind, " '", what, "'");
}

std::string seconds_since(std::chrono::steady_clock::time_point begin) {
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  std::ostringstream text;
  text << std::fixed << std::setprecision(1) << time.count() << " s";
  return text.str();
}

void check_parts(const at::Tensor& whole,
                 const at::Tensor& part,
                 int64_t size,
                 const std::string& what) {
  TORCH_CHECK(whole.dim() == 1 && part.dim() == 1 && whole.is_contiguous() &&
                  part.is_contiguous() && whole.numel() == size * part.numel() &&
                  whole.scalar_type() == part.scalar_type() && whole.device() == part.device(),
              "[world] ",
              what,
              ": expected flat, contiguous tensors of one type and device, and a whole of ",
              size,
              " parts; got a whole ",
              whole.sizes(),
              " ",
              whole.scalar_type(),
              " on ",
              whole.device(),
              " and a part ",
              part.sizes(),
              " ",
              part.scalar_type(),
              " on ",
              part.device());
}

}  // namespace

JoinedWorld::JoinedWorld(const Rendezvous& rendezvous,
                         StorePointer store,
                         std::unique_ptr<HeartbeatMonitor> monitor,
                         Group gloo,
                         Group gpu)
    : Rehearsable(rendezvous.rank, rendezvous.size),
      rendezvous_(rendezvous),
      store_(std::move(store)),
      monitor_(std::move(monitor)),
      gloo_(std::move(gloo)),
      gpu_(std::move(gpu)),
      exchange_(std::make_unique<Exchange>(gloo_)),
      exceptions_(std::uncaught_exceptions()) {
  worker_ = std::thread([this] { run_jobs(); });
}

JoinedWorld::~JoinedWorld() {
  if (std::uncaught_exceptions() > exceptions_) {
    report("it ended by an exception that it did not report");
  }
  {
    const std::scoped_lock lock(mutex_);
    is_leaving_ = true;
  }
  changed_.notify_all();
  exchange_->stop("this process leaves the world");
  worker_.join();
  monitor_->leave();
  // Processes that wait for this one find its connections closed and look up the reason in the
  // store.
  exchange_.reset();
  gloo_.reset();
  try {
    if (gpu_ && monitor_->has_reported()) {
      gpu_->abort();  // pending collectives would never finish
    } else if (gpu_) {
      gpu_->shutdown();
    }
  } catch (const std::exception&) {  // a destructor cannot report it
  }
  gpu_.reset();
  monitor_->linger();
}

PendingCollective JoinedWorld::start(const char* kind, const std::string& what, Work work) const {
  auto job = std::make_shared<Job>();
  job->what = described(kind, what);
  job->work = std::move(work);
  {
    const std::scoped_lock lock(mutex_);
    job->number = monitor_->enter(job->what);
    jobs_.push_back(job);
  }
  changed_.notify_all();
  return std::make_unique<Pending>(std::move(job), *exchange_);
}

void JoinedWorld::run_jobs() {
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_leaving_ || !jobs_.empty(); });
    if (jobs_.empty()) {
      return;
    }
    const auto job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    run(*job);
    lock.lock();
  }
}

void JoinedWorld::run(Job& job) {
  if (!failure_.empty()) {
    job.finish(failure_);
    return;
  }
  const auto begin = std::chrono::steady_clock::now();
  try {
    // Each collective has two tags. All processes number collectives alike.
    job.work(*exchange_, static_cast<int>(job.number % (int64_t{1} << 29)) * 2);
    job.finish({});
  } catch (const std::exception& error) {
    const auto after = seconds_since(begin);
    const bool is_leaving = [&] {
      const std::scoped_lock lock(mutex_);
      return is_leaving_;
    }();
    const auto cause =
        is_leaving ? "this process leaves the world" : monitor_->find_cause(job.number, job.what);
    failure_ = c10::str("[world] rank ",
                        rank(),
                        " of ",
                        size(),
                        ": ",
                        job.what,
                        " (collective ",
                        job.number,
                        ") failed after ",
                        after,
                        ": ",
                        cause,
                        ". Gloo says: ",
                        error_text(error));
    monitor_->report(failure_, HeartbeatMonitor::Cause::Elsewhere);
    job.finish(failure_);
  }
}

c10d::Backend& JoinedWorld::gpu(const char* kind, const std::string& what) const {
  TORCH_CHECK(gpu_,
              "[world] ",
              described(kind, what),
              " of tensors on a GPU: this world was connected for the CPU. Set "
              "WorldOptions::device");
  const std::scoped_lock lock(mutex_);
  monitor_->enter(described(kind, what));
  return *gpu_;
}

PendingCollective JoinedWorld::start_all_reduce(const at::Tensor& value,
                                                const std::string& what) const {
  TORCH_CHECK(value.is_contiguous(), "[world] ", what, ": expected a contiguous tensor");
  if (const World* alone = stand_in()) {
    return alone->start_all_reduce(value, what);
  }
  if (value.is_cuda()) {
    std::vector<at::Tensor> one{value};
    return std::make_unique<PendingOnGpu>(gpu("sum", what).allreduce(one));
  }
  return start(
      "sum", what, [value](Exchange& exchange, int tag) { exchange.all_reduce(value, tag); });
}

PendingCollective JoinedWorld::start_all_gather(const at::Tensor& whole,
                                                const at::Tensor& part,
                                                const std::string& what) const {
  check_parts(whole, part, size(), what);
  if (const World* alone = stand_in()) {
    return alone->start_all_gather(whole, part, what);
  }
  if (whole.is_cuda()) {
    auto out = whole, in = part;
    return std::make_unique<PendingOnGpu>(gpu("gather", what)._allgather_base(out, in));
  }
  return start("gather", what, [whole, part](Exchange& exchange, int tag) {
    exchange.all_gather(whole, part, tag);
  });
}

PendingCollective JoinedWorld::start_reduce_scatter(const at::Tensor& part,
                                                    const at::Tensor& whole,
                                                    const std::string& what) const {
  check_parts(whole, part, size(), what);
  if (const World* alone = stand_in()) {
    return alone->start_reduce_scatter(part, whole, what);
  }
  if (whole.is_cuda()) {
    auto out = part, in = whole;
    return std::make_unique<PendingOnGpu>(gpu("reduce", what)._reduce_scatter_base(out, in));
  }
  return start("reduce", what, [part, whole](Exchange& exchange, int tag) {
    exchange.reduce_scatter(part, whole, tag);
  });
}

std::vector<std::string> JoinedWorld::all_gather(const std::string& own,
                                                 const std::string& what) const {
  if (const World* alone = stand_in()) {
    return alone->all_gather(own, what);
  }
  const auto all = std::make_shared<std::vector<std::string>>();
  start("gather", what, [all, own](Exchange& exchange, int tag) {
    *all = exchange.all_gather(own, tag);
  })->wait();
  return std::move(*all);
}

}  // namespace reprise::dist
