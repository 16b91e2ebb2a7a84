// What surrounds the Verilated accelerator: clock, reset, the host's bus, the memory of docs/timing.md behind the
// AXI4 port, and the recording of traces and counts. Everything that happens in a cycle happens here; Python calls it
// for whole launches. LATHE_BUS_BYTES is defined by the build.

#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "Vlathe.h"
#include "protocol.h"
#include "verilated.h"
#if LATHE_WAVE_VCD
#include "verilated_vcd_c.h"
using Wave = VerilatedVcdC;
#elif LATHE_WAVE_FST
#include "verilated_fst_c.h"
using Wave = VerilatedFstC;
#endif

namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kBus = LATHE_BUS_BYTES;
enum Response : uint8_t { kOkay = 0, kSlaveError = 2, kDecodeError = 3 };
enum End : int32_t { kEnded = 0, kReset = 1, kTooLong = 2, kNoData = 3, kBroken = 4 };
constexpr uint8_t kWriteId = 3;

class Memory {
  public:
    uint8_t *find(uint64_t address) {
        const uint64_t page = address / kPage;
        if (page == last_ && cached_) return cached_;
        auto found = pages_.find(page);
        if (found == pages_.end()) return nullptr;
        last_ = page;
        return cached_ = found->second.get();
    }
    uint8_t *make(uint64_t address) {
        if (uint8_t *page = find(address)) return page;
        auto &page = pages_[address / kPage];
        page.reset(new uint8_t[kPage]());
        last_ = address / kPage;
        return cached_ = page.get();
    }
    void clear() {
        pages_.clear();
        cached_ = nullptr;
    }
    std::unordered_map<uint64_t, std::unique_ptr<uint8_t[]>> pages_;

  private:
    uint64_t last_ = ~0ull;
    uint8_t *cached_ = nullptr;
};

struct Burst {
    uint64_t address;
    uint32_t left;
    uint8_t id;
    int64_t due;
    bool failed;
    int64_t number;  // of all bursts in this direction
};

struct Answer {
    int64_t due;
    bool failed;
};

}  // namespace

extern "C" {

struct LatheLaunch {
    int64_t count;
    int64_t memory_end;  // -1: memory without an end
    int64_t error_read;  // the read beat that is answered with an error, -1: none
    int64_t error_write;
    int64_t reset_at;  // -1: never
    int64_t most_cycles;
    uint64_t stall_seed;  // first state of the random numbers, 0: no stalls
    int64_t latency;
    int64_t cycles_per_beat;
    int64_t shared_bandwidth;
    int64_t response_latency;
    int64_t burst_beats;
    int64_t outstanding_reads;
};

// Counts of a launch; bytes_read by memory type, operations by kind: gemm, reset, then ALU operations.
struct LatheCounts {
    int64_t bursts[2];
    int64_t beats[2];
    int64_t dispatched;
    int64_t bytes_read[8];
    int64_t bytes_written;
    int64_t operations[10];
    int64_t interleaved;  // read beats that came before another burst had all of its own
    int64_t cycle;
    int64_t rule;  // of the memory port, when one was broken
};

// Columns of the trace, `count` entries each; see lathe.rtl.engines.launch.Trace.
struct LatheTrace {
    int64_t *unit, *dispatch, *dispatch_cause, *dispatch_stalled, *start, *end, *cause, *stalled, *waited;
};
}

namespace {

class Dram {
  public:
    Dram(Memory &memory, const LatheLaunch &launch, LatheCounts &counts)
        : memory_(memory), launch_(launch), counts_(counts), random_(launch.stall_seed),
          protocol_(launch.burst_beats, launch.outstanding_reads) {
        static constexpr unsigned kLuck[] = {1, 3, 6, 9};
        for (unsigned &luck : luck_) luck = launch.stall_seed ? kLuck[draw() % 4] : 10;
    }

    // What the memory shows to the bus in cycle t.
    void offer(Vlathe &top, int64_t t) {
        top.m_axi_arready = lucky(kAr);
        top.m_axi_awready = lucky(kAw);
        if (!shown_ && !reads_.empty() && (launch_.stall_seed ? lucky(kR) : reads_.front().due <= t)) show(top);
        top.m_axi_rvalid = shown_;
        top.m_axi_wready = !writes_.empty() && (launch_.stall_seed ? lucky(kW) : writes_.front().due <= t);
        answering_ = answering_ || (!answers_.empty() && answers_.front().due <= t && lucky(kB));
        top.m_axi_bvalid = answering_;
        if (answering_) {
            top.m_axi_bid = kWriteId;
            top.m_axi_bresp = answered_ == launch_.error_write   ? kSlaveError
                              : answers_.front().failed ? kDecodeError
                                                        : kOkay;
        }
    }

    // What the bus has shown in cycle t. Returns kEnded while all is well.
    End see(Vlathe &top, int64_t t) {
        if (End end = broken(protocol_.see(shown_on(top)))) return end;
        if (shown_ && top.m_axi_rready) {
            shown_ = false;
            counts_.beats[0]++;
            const int64_t number = reads_[source_].number;
            counts_.interleaved += latest_ >= 0 && latest_ != number;
            latest_ = reads_[source_].left == 1 ? -1 : number;
            advance(reads_, source_);
        }
        if (top.m_axi_wready) {
            if (top.m_axi_wvalid) {
                write(top, t);
            } else if (!launch_.stall_seed) {
                return kNoData;
            }
        }
        if (top.m_axi_bvalid && top.m_axi_bready) {
            answers_.pop_front();
            answered_++;
            answering_ = false;
        }
        if (top.m_axi_arvalid && top.m_axi_arready) {
            accept(t, 0, top.m_axi_araddr, top.m_axi_arlen + 1u, top.m_axi_arid);
        }
        if (top.m_axi_awvalid && top.m_axi_awready) {
            accept(t, 1, top.m_axi_awaddr, top.m_axi_awlen + 1u, top.m_axi_awid);
        }
        return kEnded;
    }

    // The launch has ended.
    End end() { return broken(protocol_.end()); }

  private:
    enum Channel { kAr, kAw, kR, kW, kB };

    End broken(Rule rule) {
        counts_.rule = static_cast<int64_t>(rule);
        return rule == Rule::NONE ? kEnded : kBroken;
    }

    const LatheBus &shown_on(const Vlathe &top) {
        LatheBus &bus = bus_;
        bus.ar.valid = top.m_axi_arvalid;
        if (bus.ar.valid) {
            bus.ar = {top.m_axi_araddr, 1, top.m_axi_arready, top.m_axi_arlen, top.m_axi_arsize, top.m_axi_arburst,
                      top.m_axi_arid};
        }
        bus.aw.valid = top.m_axi_awvalid;
        if (bus.aw.valid) {
            bus.aw = {top.m_axi_awaddr, 1, top.m_axi_awready, top.m_axi_awlen, top.m_axi_awsize, top.m_axi_awburst,
                      top.m_axi_awid};
        }
        bus.w_valid = top.m_axi_wvalid;
        if (bus.w_valid) {
            bus.w_ready = top.m_axi_wready;
            bus.w_last = top.m_axi_wlast;
            std::memcpy(bus.w_data, &top.m_axi_wdata, sizeof bus.w_data);
            std::memcpy(bus.w_strobes, &top.m_axi_wstrb, sizeof bus.w_strobes);
        }
        bus.r_valid = top.m_axi_rvalid;
        if (bus.r_valid) {
            bus.r_ready = top.m_axi_rready;
            bus.r_last = top.m_axi_rlast;
            bus.r_id = top.m_axi_rid;
            bus.r_response = top.m_axi_rresp;
            std::memcpy(bus.r_data, &top.m_axi_rdata, sizeof bus.r_data);
        }
        bus.b_valid = top.m_axi_bvalid;
        if (bus.b_valid) {
            bus.b_ready = top.m_axi_bready;
            bus.b_id = top.m_axi_bid;
            bus.b_response = top.m_axi_bresp;
        }
        return bus;
    }

    // As Draws in dram.py, and asked for in the same order, so that the same seed gives the same stalls.
    uint64_t draw() {
        random_ ^= random_ << 13;
        random_ ^= random_ >> 7;
        random_ ^= random_ << 17;
        return random_ >> 20;
    }

    // Whether something happens on a channel in this cycle: always, unless there are random stalls.
    bool lucky(Channel channel) { return !launch_.stall_seed || draw() % 10 < luck_[channel]; }

    // The burst of the next read beat: the oldest, or with random stalls the oldest of some id.
    size_t served() {
        if (!launch_.stall_seed) return 0;
        size_t oldest[4], ids = 0;
        unsigned met = 0;
        for (size_t place = 0; place < reads_.size(); place++) {
            if (!(met >> reads_[place].id & 1)) oldest[ids++] = place;
            met |= 1u << reads_[place].id;
        }
        return oldest[draw() % ids];
    }

    bool outside(uint64_t address) const {
        return launch_.memory_end >= 0 && address >= static_cast<uint64_t>(launch_.memory_end);
    }

    void show(Vlathe &top) {
        source_ = served();
        const Burst &burst = reads_[source_];
        shown_ = true;
        top.m_axi_rid = burst.id;
        top.m_axi_rlast = burst.left == 1;
        top.m_axi_rresp = counts_.beats[0] == launch_.error_read ? kSlaveError
                          : outside(burst.address)               ? kDecodeError
                                                                 : kOkay;
        if (const uint8_t *page = memory_.find(burst.address)) {
            std::memcpy(&top.m_axi_rdata, page + burst.address % kPage, kBus);
        } else {
            std::memset(&top.m_axi_rdata, 0, kBus);
        }
    }

    void write(Vlathe &top, int64_t t) {
        Burst &burst = writes_.front();
        const bool last = burst.left == 1;
        counts_.beats[1]++;
        if (outside(burst.address)) {
            burst.failed = true;
        } else {
            uint8_t *target = memory_.make(burst.address) + burst.address % kPage;
            uint8_t content[kBus];
            uint8_t strobes[(kBus + 7) / 8];
            std::memcpy(content, &top.m_axi_wdata, kBus);
            std::memcpy(strobes, &top.m_axi_wstrb, sizeof strobes);
            for (uint64_t place = 0; place < kBus; place++) {
                if (strobes[place / 8] >> (place % 8) & 1) target[place] = content[place];
            }
        }
        const bool failed = burst.failed;
        advance(writes_, 0);
        if (last) answers_.push_back({t + launch_.response_latency, failed});
    }

    void advance(std::deque<Burst> &queue, size_t place) {
        Burst &burst = queue[place];
        burst.address += kBus;
        burst.due += launch_.cycles_per_beat;
        if (--burst.left == 0) queue.erase(queue.begin() + place);
    }

    void accept(int64_t t, int kind, uint64_t address, uint32_t beats, uint8_t id) {
        int64_t &free = free_[launch_.shared_bandwidth ? 0 : kind];
        const int64_t begin = t + launch_.latency > free ? t + launch_.latency : free;
        free = begin + beats * launch_.cycles_per_beat;
        (kind ? writes_ : reads_).push_back({address, beats, id, begin + launch_.cycles_per_beat, false, counts_.bursts[kind]});
        counts_.bursts[kind]++;
    }

    Memory &memory_;
    const LatheLaunch &launch_;
    LatheCounts &counts_;
    uint64_t random_;
    Protocol protocol_;
    LatheBus bus_ = {};
    std::deque<Burst> reads_, writes_;
    std::deque<Answer> answers_;
    int64_t free_[2] = {0, 0};
    int64_t answered_ = 0;
    bool shown_ = false;
    bool answering_ = false;
    size_t source_ = 0;    // the burst of the beat that is shown: its place in reads_
    int64_t latest_ = -1;  // number of the burst of the beat before, -1 when that was its last
    unsigned luck_[5];     // tenths, by channel
};

// Trace and counts from the trace port; the unit's numbers are load 0, compute 1, store 2, fetch 3.
class Recorder {
  public:
    Recorder(const LatheLaunch &launch, LatheTrace *trace, LatheCounts &counts)
        : launch_(launch), trace_(trace), counts_(counts) {}

    void cycle(Vlathe &top, int64_t t) {
        if (trace_) {
            unit(0, t, top.trace_load_start, top.trace_load_end, top.trace_load_stall, top.trace_load_cause,
                 top.trace_load_wait, top.trace_load_retire);
            unit(1, t, top.trace_compute_start, top.trace_compute_end, top.trace_compute_stall,
                 top.trace_compute_cause, top.trace_compute_wait, 0);
            unit(2, t, top.trace_store_start, top.trace_store_end, top.trace_store_stall, top.trace_store_cause,
                 top.trace_store_wait, 0);
            // Cycle 0 belongs to no instruction.
            if (top.trace_fetch_stall && t > 0) stall(3, top.trace_fetch_cause);
            if (top.trace_fetch_start) dispatch(top.trace_unit, t);
        }
        counts_.dispatched += top.trace_fetch_start;
        if (top.trace_operation) {
            const unsigned kind = top.trace_operation;
            counts_.operations[kind & 2 ? kind >> 2 & 1 : 2 + (kind >> 3)]++;
        }
        counts_.bytes_read[top.trace_load_memory] += top.trace_load_bytes;
        counts_.bytes_read[top.trace_compute_memory] += top.trace_compute_bytes;
        counts_.bytes_written += top.trace_store_bytes;
    }

  private:
    void unit(int which, int64_t t, bool start, bool end, bool stalls, uint8_t cause, bool waits, bool retires) {
        auto &queue = queue_[which];
        if (waits) trace_->waited[queue[which == 0 ? retired_ : started_[which] - 1]]++;
        retired_ += retires;
        if (stalls) stall(which, cause);
        if (start) {
            const int64_t index = queue[started_[which]++];
            trace_->start[index] = t;
            trace_->waited[index] = 0;
            trace_->stalled[index] = waiting_[which];
            trace_->cause[index] = latest_[which];
            waiting_[which] = latest_[which] = 0;
        }
        if (end) trace_->end[queue[ended_[which]++]] = t;
    }

    void stall(int which, uint8_t cause) {
        waiting_[which]++;
        latest_[which] = cause;
    }

    void dispatch(int unit, int64_t t) {
        const int64_t index = counts_.dispatched;
        if (index >= launch_.count) return;
        queue_[unit].push_back(index);
        trace_->unit[index] = unit;
        trace_->dispatch[index] = t;
        trace_->dispatch_stalled[index] = waiting_[3];
        trace_->dispatch_cause[index] = latest_[3];
        waiting_[3] = latest_[3] = 0;
    }

    const LatheLaunch &launch_;
    LatheTrace *trace_;
    LatheCounts &counts_;
    std::vector<int64_t> queue_[3];
    size_t started_[3] = {}, ended_[3] = {}, retired_ = 0;
    int64_t waiting_[4] = {}, latest_[4] = {};
};

class Machine {
  public:
    Machine() : context_(new VerilatedContext), top_(new Vlathe(context_.get(), "lathe")) { reset(); }
    ~Machine() {
        wave_close();
        top_->final();
    }

    void reset() {
        Vlathe &top = *top_;
        top.m_axi_arready = top.m_axi_awready = 1;
        top.m_axi_rvalid = top.m_axi_wready = top.m_axi_bvalid = 0;
        top.s_axi_awvalid = top.s_axi_wvalid = top.s_axi_arvalid = 0;
        top.s_axi_bready = top.s_axi_rready = 1;
        top.s_axi_wstrb = 15;
        top.rst = 1;
        tick();
        tick();
        top.rst = 0;
        tick();  // the reset passes a register
    }

    void settle() {
        top_->clk = 0;
        top_->eval();
        wave_dump();
    }

    void edge() {
        top_->clk = 1;
        top_->eval();
        wave_dump();
    }

    void tick() {
        settle();
        edge();
    }

    void write(uint32_t address, uint32_t value) {
        top_->s_axi_awaddr = address;
        top_->s_axi_wdata = value;
        top_->s_axi_awvalid = top_->s_axi_wvalid = 1;
        tick();
        top_->s_axi_awvalid = top_->s_axi_wvalid = 0;
    }

    uint32_t read(uint32_t address) {
        top_->s_axi_araddr = address;
        top_->s_axi_arvalid = 1;
        tick();
        top_->s_axi_arvalid = 0;
        const uint32_t value = top_->s_axi_rdata;
        tick();
        return value;
    }

    // From the write of the start bit, before its cycle, to the launch's end.
    End run(const LatheLaunch &launch, LatheTrace *trace, LatheCounts &counts) {
        Vlathe &top = *top_;
        Dram dram(memory, launch, counts);
        Recorder recorder(launch, trace, counts);
        for (int64_t t = 0;; t++) {
            counts.cycle = t;
            if (t == launch.reset_at) return kReset;
            if (t > launch.most_cycles) return kTooLong;
            dram.offer(top, t);
            settle();
            if (t > 0 && (top.trace_done || top.trace_fault)) return dram.end();
            recorder.cycle(top, t);
            if (End end = dram.see(top, t)) return end;
            edge();
        }
    }

    void wave_open(const char *path) {
#if LATHE_WAVE_VCD || LATHE_WAVE_FST
        context_->traceEverOn(true);
        wave_.reset(new Wave);
        top_->trace(wave_.get(), 99);
        wave_->open(path);
#else
        (void)path;
#endif
    }

    void wave_close() {
#if LATHE_WAVE_VCD || LATHE_WAVE_FST
        if (wave_) wave_->close();
        wave_.reset();
#endif
    }

    Memory memory;

  private:
    void wave_dump() {
#if LATHE_WAVE_VCD || LATHE_WAVE_FST
        if (wave_) wave_->dump(time_);
        time_ += 5;
#endif
    }

    std::unique_ptr<VerilatedContext> context_;
    std::unique_ptr<Vlathe> top_;
#if LATHE_WAVE_VCD || LATHE_WAVE_FST
    std::unique_ptr<Wave> wave_;
    uint64_t time_ = 0;
#endif
};

}  // namespace

extern "C" {

void *lathe_new() { return new Machine; }
void lathe_delete(void *machine) { delete static_cast<Machine *>(machine); }
void lathe_reset(void *machine) { static_cast<Machine *>(machine)->reset(); }
void lathe_write(void *machine, uint32_t address, uint32_t value) {
    static_cast<Machine *>(machine)->write(address, value);
}
uint32_t lathe_read(void *machine, uint32_t address) { return static_cast<Machine *>(machine)->read(address); }
void lathe_wave(void *machine, const char *path) { static_cast<Machine *>(machine)->wave_open(path); }
void lathe_wave_close(void *machine) { static_cast<Machine *>(machine)->wave_close(); }

// The memory becomes the given pages, and nothing else.
void lathe_set_memory(void *machine, int64_t count, const uint64_t *addresses, const uint8_t *pages) {
    Memory &memory = static_cast<Machine *>(machine)->memory;
    memory.clear();
    for (int64_t page = 0; page < count; page++) std::memcpy(memory.make(addresses[page]), pages + page * kPage, kPage);
}

int64_t lathe_page_count(void *machine) { return static_cast<Machine *>(machine)->memory.pages_.size(); }

void lathe_get_memory(void *machine, uint64_t *addresses, uint8_t *pages) {
    for (const auto &page : static_cast<Machine *>(machine)->memory.pages_) {
        *addresses++ = page.first * kPage;
        std::memcpy(pages, page.second.get(), kPage);
        pages += kPage;
    }
}

int32_t lathe_run(void *machine, const LatheLaunch *launch, LatheTrace *trace, LatheCounts *counts) {
    return static_cast<Machine *>(machine)->run(*launch, trace, *counts);
}
}
