// Protocol checker of the memory port, equal to lathe.rtl.engines.axi_checker; see there. The numbers of the rules and the
// constants of the bus are in shared.h, which the build writes (lathe.rtl.engines.abi).

#pragma once

#include <cstdint>
#include <cstring>
#include <deque>

#include "shared.h"

extern "C" {

struct LatheAddress {
    uint64_t address;
    uint8_t valid, ready, length, size, burst, id;
};

// The signals of the memory port in a cycle.
struct LatheBus {
    LatheAddress ar, aw;
    uint8_t w_valid, w_ready, w_last;
    uint8_t r_valid, r_ready, r_last, r_id, r_response;
    uint8_t b_valid, b_ready, b_id, b_response;
    uint8_t w_data[kBusBytes], w_strobes[(kBusBytes + 7) / 8], r_data[kBusBytes];
};
}

class Protocol {
  public:
    Protocol(int64_t burst_beats, int64_t outstanding) : most_(burst_beats), outstanding_(outstanding) {}

    // Checks one cycle. Returns NONE if no rule is broken.
    Rule see(const LatheBus &now) {
        if (!(now.ar.valid | now.aw.valid | now.w_valid | now.r_valid | now.b_valid | waits_)) return Rule::NONE;
        if (waits_) {
            if (Rule rule = stays(now); rule != Rule::NONE) return rule;
        }
        if (now.ar.valid) {
            if (Rule rule = burst(now.ar, Rule::AR_KIND); rule != Rule::NONE) return rule;
            if (now.ar.id >= kWriteId) return Rule::AR_ID;
            if (inflight_ >= outstanding_) return Rule::AR_OUTSTANDING;
        }
        if (now.aw.valid) {
            if (Rule rule = burst(now.aw, Rule::AW_KIND); rule != Rule::NONE) return rule;
            if (now.aw.id != kWriteId) return Rule::AW_ID;
        }
        if (now.w_valid) {
            if (writes_.empty()) return Rule::W_ADDRESS;
            if (now.w_last != (writes_.front() == 1)) return Rule::W_LAST;
        }
        if (now.r_valid) {
            if (reads_[now.r_id].empty()) return Rule::R_BURST;
            if (now.r_last != (reads_[now.r_id].front() == 1)) return Rule::R_LAST;
        }
        if (now.b_valid) {
            if (!unanswered_) return Rule::B_BURST;
            if (now.b_id != kWriteId) return Rule::B_ID;
        }
        take(now);
        return Rule::NONE;
    }

    // Checks that nothing is pending: the launch has ended.
    Rule end() const {
        if (inflight_) return Rule::R_END;
        return writes_.empty() && !unanswered_ ? Rule::NONE : Rule::B_END;
    }

  private:
    static bool same(const LatheAddress &a, const LatheAddress &b) {
        return a.address == b.address && a.length == b.length && a.size == b.size && a.burst == b.burst && a.id == b.id;
    }

    // Checks what was offered in the previous cycle and not accepted. Channels in the order AR, AW, W, R, B.
    Rule stays(const LatheBus &now) const {
        const LatheBus &old = before_;
        if (old.ar.valid && !old.ar.ready) {
            if (!now.ar.valid) return Rule::AR_VALID;
            if (!same(now.ar, old.ar)) return Rule::AR_STABLE;
        }
        if (old.aw.valid && !old.aw.ready) {
            if (!now.aw.valid) return Rule::AW_VALID;
            if (!same(now.aw, old.aw)) return Rule::AW_STABLE;
        }
        if (old.w_valid && !old.w_ready) {
            if (!now.w_valid) return Rule::W_VALID;
            if (now.w_last != old.w_last || std::memcmp(now.w_data, old.w_data, sizeof now.w_data) ||
                std::memcmp(now.w_strobes, old.w_strobes, sizeof now.w_strobes))
                return Rule::W_STABLE;
        }
        if (old.r_valid && !old.r_ready) {
            if (!now.r_valid) return Rule::R_VALID;
            if (now.r_last != old.r_last || now.r_id != old.r_id || now.r_response != old.r_response ||
                std::memcmp(now.r_data, old.r_data, sizeof now.r_data))
                return Rule::R_STABLE;
        }
        if (old.b_valid && !old.b_ready) {
            if (!now.b_valid) return Rule::B_VALID;
            if (now.b_id != old.b_id || now.b_response != old.b_response) return Rule::B_STABLE;
        }
        return Rule::NONE;
    }

    // Checks the rules of a burst, which are numbered from `first` on.
    Rule burst(const LatheAddress &shown, Rule first) const {
        const uint64_t bytes = (shown.length + 1u) * kBusBytes;
        if (1u << shown.size != kBusBytes || shown.burst != kIncrementing || shown.address % kBusBytes) return first;
        if (shown.address % kPageBytes + bytes > kPageBytes) return static_cast<Rule>(static_cast<int32_t>(first) + 1);
        if (shown.length >= most_) return static_cast<Rule>(static_cast<int32_t>(first) + 2);
        return Rule::NONE;
    }

    // Applies the handshakes of this cycle.
    void take(const LatheBus &now) {
        unanswered_ -= now.b_valid & now.b_ready;
        if (now.w_valid && now.w_ready) {
            writes_.front()--;
            if (now.w_last) {
                writes_.pop_front();
                unanswered_++;
            }
        }
        if (now.r_valid && now.r_ready) {
            reads_[now.r_id].front()--;
            if (now.r_last) {
                reads_[now.r_id].pop_front();
                inflight_--;
            }
        }
        if (now.ar.valid && now.ar.ready) {
            reads_[now.ar.id].push_back(now.ar.length + 1u);
            inflight_++;
        }
        if (now.aw.valid && now.aw.ready) writes_.push_back(now.aw.length + 1u);
        waits_ = (now.ar.valid & !now.ar.ready) | (now.aw.valid & !now.aw.ready) | (now.w_valid & !now.w_ready) |
                 (now.r_valid & !now.r_ready) | (now.b_valid & !now.b_ready);
        if (waits_) before_ = now;
    }

    const int64_t most_, outstanding_;
    LatheBus before_ = {};
    bool waits_ = false;
    std::deque<uint32_t> reads_[kWriteId + 1];  // by id, beats to come
    std::deque<uint32_t> writes_;               // of each burst, beats to come
    int64_t inflight_ = 0, unanswered_ = 0;
};
