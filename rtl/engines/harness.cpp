// Harness of the Verilated accelerator: clock, reset, the host CPU's bus, the memory model of dram.h on the AXI4 port, and
// the recording of traces and counts. Python calls it once per launch, not per cycle. The build writes shared.h
// (lathe.rtl.engines.abi).

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "Vlathe.h"
#include "dram.h"
#include "shared.h"
#include "verilated.h"
#if LATHE_WAVE_VCD
#include "verilated_vcd_c.h"
using Wave = VerilatedVcdC;
#elif LATHE_WAVE_FST
#include "verilated_fst_c.h"
using Wave = VerilatedFstC;
#endif

namespace {

// Records trace and counts from the trace port. Units are numbered: load 0, compute 1, store 2, fetch 3.
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
        counts_.operations[top.trace_operation]++;
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
        tick();  // the reset is registered
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

    // Runs from the cycle after the write of the start bit to the end of the launch.
    End run(const LatheLaunch &launch, LatheTrace *trace, LatheCounts &counts) {
        Vlathe &top = *top_;
        Dram<Vlathe> dram(memory, launch, counts);
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

// Replaces the contents of the memory by the given pages.
void lathe_set_memory(void *machine, int64_t count, const uint64_t *addresses, const uint8_t *pages) {
    Memory &memory = static_cast<Machine *>(machine)->memory;
    memory.clear();
    for (int64_t page = 0; page < count; page++) std::memcpy(memory.make(addresses[page]), pages + page * kPageBytes, kPageBytes);
}

int64_t lathe_page_count(void *machine) { return static_cast<Machine *>(machine)->memory.pages_.size(); }

void lathe_get_memory(void *machine, uint64_t *addresses, uint8_t *pages) {
    for (const auto &page : static_cast<Machine *>(machine)->memory.pages_) {
        *addresses++ = page.first * kPageBytes;
        std::memcpy(pages, page.second.get(), kPageBytes);
        pages += kPageBytes;
    }
}

int32_t lathe_run(void *machine, const LatheLaunch *launch, LatheTrace *trace, LatheCounts *counts) {
    return static_cast<Machine *>(machine)->run(*launch, trace, *counts);
}
}
