// The memory model on the AXI4 port: the DRAM of docs/timing-model.md, or one with random stalls. lathe.rtl.engines.dram is
// the same in Python; tests/rtl/test_dram.py compares the two.

#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <iterator>
#include <memory>
#include <unordered_map>

#include "protocol.h"
#include "shared.h"

class Memory {
  public:
    uint8_t *find(uint64_t address) {
        const uint64_t page = address / kPageBytes;
        if (page == last_ && cached_) return cached_;
        auto found = pages_.find(page);
        if (found == pages_.end()) return nullptr;
        last_ = page;
        return cached_ = found->second.get();
    }
    uint8_t *make(uint64_t address) {
        if (uint8_t *page = find(address)) return page;
        auto &page = pages_[address / kPageBytes];
        page.reset(new uint8_t[kPageBytes]());
        last_ = address / kPageBytes;
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

// `Bus` has the signals of the machine's memory port, as Verilator names them.
template <class Bus>
class Dram {
  public:
    Dram(Memory &memory, const LatheLaunch &launch, LatheCounts &counts)
        : memory_(memory), launch_(launch), counts_(counts), random_(launch.stall_seed),
          protocol_(launch.burst_beats, launch.outstanding_reads) {
        for (unsigned &luck : luck_) luck = launch.stall_seed ? kLuck[draw() % std::size(kLuck)] : 10;
    }

    // Drives the memory's signals of the bus in cycle t.
    void offer(Bus &top, int64_t t) {
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

    // Handles the signals of the bus in cycle t. Returns kEnded if no rule is broken.
    End see(Bus &top, int64_t t) {
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

    // Checks that nothing is pending: the launch has ended.
    End end() { return broken(protocol_.end()); }

  private:
    enum Channel { kAr, kAw, kR, kW, kB };

    End broken(Rule rule) {
        counts_.rule = static_cast<int64_t>(rule);
        return rule == Rule::NONE ? kEnded : kBroken;
    }

    const LatheBus &shown_on(const Bus &top) {
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

    // As Draws in dram.py, with draws in the same order, so that the same seed gives the same stalls.
    uint64_t draw() {
        random_ ^= random_ << 13;
        random_ ^= random_ >> 7;
        random_ ^= random_ << 17;
        return random_ >> 20;
    }

    // Whether a channel is active in this cycle: always, unless there are random stalls.
    bool lucky(Channel channel) { return !launch_.stall_seed || draw() % 10 < luck_[channel]; }

    // The burst of the next read beat: the oldest, or with random stalls the oldest of a random id.
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

    void show(Bus &top) {
        source_ = served();
        const Burst &burst = reads_[source_];
        shown_ = true;
        top.m_axi_rid = burst.id;
        top.m_axi_rlast = burst.left == 1;
        top.m_axi_rresp = counts_.beats[0] == launch_.error_read ? kSlaveError
                          : outside(burst.address)               ? kDecodeError
                                                                 : kOkay;
        if (const uint8_t *page = memory_.find(burst.address)) {
            std::memcpy(&top.m_axi_rdata, page + burst.address % kPageBytes, kBusBytes);
        } else {
            std::memset(&top.m_axi_rdata, 0, kBusBytes);
        }
    }

    void write(Bus &top, int64_t t) {
        Burst &burst = writes_.front();
        const bool last = burst.left == 1;
        counts_.beats[1]++;
        if (outside(burst.address)) {
            burst.failed = true;
        } else {
            uint8_t *target = memory_.make(burst.address) + burst.address % kPageBytes;
            uint8_t content[kBusBytes];
            uint8_t strobes[(kBusBytes + 7) / 8];
            std::memcpy(content, &top.m_axi_wdata, kBusBytes);
            std::memcpy(strobes, &top.m_axi_wstrb, sizeof strobes);
            for (uint64_t place = 0; place < kBusBytes; place++) {
                if (strobes[place / 8] >> (place % 8) & 1) target[place] = content[place];
            }
        }
        const bool failed = burst.failed;
        advance(writes_, 0);
        if (last) answers_.push_back({t + launch_.response_latency, failed});
    }

    void advance(std::deque<Burst> &queue, size_t place) {
        Burst &burst = queue[place];
        burst.address += kBusBytes;
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
    size_t source_ = 0;    // index in reads_ of the burst whose beat is on the bus
    int64_t latest_ = -1;  // number of the burst of the previous beat, -1 if that was its last
    unsigned luck_[5];     // in tenths, by channel
};
