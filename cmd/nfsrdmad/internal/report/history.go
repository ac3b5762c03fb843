package report

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// historyInterval is the time between two samples of a History, and historySize the number of
// samples that it keeps: an hour.
const (
	historyInterval = 10 * time.Second
	historySize     = 360
	historySpan     = historySize * historyInterval
)

// maxHistoryInterval is the longest interval whose mean is a sample. A longer one, in which the
// host or the daemon was suspended, leaves a gap.
const maxHistoryInterval = 5 * historyInterval / 2

// usageTotals are sums of calls, of bytes received and sent, and of the calls' durations since the
// daemon started. Of an export or a client, the bytes are those of file data written and read.
type usageTotals struct {
	calls, in, out uint64
	busy           time.Duration
}

// historyTotals are the daemon's counters at one time.
type historyTotals struct {
	usageTotals // of all procedures
	errors      uint64

	connections, clients int

	procedures map[string]usageTotals // by program and procedure
	exports    map[string]usageTotals // by path
	addresses  map[string]usageTotals // by client address, without durations
}

// sampleTotals reads the counters. Its cost depends on the numbers of procedures, of exports, and of
// the client addresses that are counted, but not on those of connections and of clients with state.
func (src *Source) sampleTotals() *historyTotals {
	t := &historyTotals{procedures: make(map[string]usageTotals), exports: make(map[string]usageTotals), addresses: make(map[string]usageTotals)}
	for _, s := range src.Observer.Stats() {
		program, procedure := ProcNames(&s)
		t.procedures[program+" "+procedure] = usageTotals{s.Calls, s.In, s.Out, s.Duration}
		t.calls, t.in, t.out, t.busy = t.calls+s.Calls, t.in+s.In, t.out+s.Out, t.busy+s.Duration
		for _, f := range s.Failed {
			t.errors += f.Count
		}
	}
	for _, e := range src.Exports() {
		s := e.Usage.Stats()
		t.exports[e.Path] = usageTotals{s.Calls, s.Written, s.Read, s.Duration}
	}
	addresses, _ := src.Observer.Clients()
	for i := range addresses {
		c := &addresses[i]
		t.addresses[c.Addr.String()] = usageTotals{calls: c.Calls, in: c.Written, out: c.Read}
	}
	t.connections = src.RDMA.Stats().Now
	if src.TCP != nil {
		t.connections += src.TCP.Stats().Now
	}
	t.clients = src.ClientState.CountClients()
	return t
}

// A usageSample describes an interval: means per second, and the mean latency.
type usageSample struct {
	calls, in, out float64 // negative if unknown
	latency        float64 // in seconds; negative without calls
}

// A historySample also has the numbers of connections and of clients at the interval's end.
type historySample struct {
	end time.Duration
	usageSample
	errors               float64
	connections, clients int
}

// newUsageSample returns the sample for the interval from was to now.
func newUsageSample(was, now usageTotals, interval time.Duration) usageSample {
	rate := func(was, now uint64) float64 { return ratePerSecond(was, now, interval) }
	s := usageSample{calls: rate(was.calls, now.calls), in: rate(was.in, now.in), out: rate(was.out, now.out), latency: -1}
	if now.calls > was.calls && now.busy >= was.busy {
		s.latency = (now.busy - was.busy).Seconds() / float64(now.calls-was.calls)
	}
	return s
}

// newSample returns the sample for the interval from was to now, which ends at end.
func newSample(was, now *historyTotals, interval, end time.Duration) historySample {
	return historySample{
		end: end, usageSample: newUsageSample(was.usageTotals, now.usageTotals, interval),
		errors: ratePerSecond(was.errors, now.errors, interval), connections: now.connections, clients: now.clients,
	}
}

// ratePerSecond returns by how much a counter increased per second. A counter that is smaller than
// it was has been replaced by one that began at 0.
func ratePerSecond(was, now uint64, interval time.Duration) float64 {
	if now < was {
		was = 0
	}
	return float64(now-was) / max(interval.Seconds(), 1)
}

// A History samples the daemon's counters, and keeps the samples of an hour for the live page: those
// of the server, and of the busiest exports and clients.
type History struct {
	clock  func() time.Duration // CLOCK_BOOTTIME
	totals func() *historyTotals

	mu      sync.Mutex
	samples [historySize]historySample // a ring
	taken   int                        // samples so far
	bases   [2]historyBase             // the last two times at which counters were read, the later one first

	exports, addresses seriesSet
}

// A historyBase is what the counters were at one time.
type historyBase struct {
	*historyTotals // nil: not read yet
	at             time.Duration
}

// NewHistory returns a History without samples. Each sample reads a new Source.
func NewHistory(newSource func() *Source) *History {
	return &History{clock: readBootTime, totals: func() *historyTotals { return newSource().sampleTotals() }}
}

// Start takes samples until stop is called.
func (h *History) Start() (stop func()) {
	h.takeSample()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { h.takeSamples(ctx) })
	return func() {
		cancel()
		wg.Wait()
	}
}

// readBootTime reads CLOCK_BOOTTIME: steps of the clock do not change it, and it continues during
// suspend, which a History must notice.
func readBootTime() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // every Linux that Go supports has this clock
	return time.Duration(ts.Nano())
}

// takeSamples takes a sample at each interval until ctx is canceled.
func (h *History) takeSamples(ctx context.Context) {
	ticker := time.NewTicker(historyInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			h.takeSample()
		}
	}
}

// takeSample ends an interval.
func (h *History) takeSample() {
	now := historyBase{h.totals(), h.clock()}
	h.mu.Lock()
	defer h.mu.Unlock()
	was := h.bases[0]
	h.bases[0], h.bases[1] = now, was
	interval := now.at - was.at
	switch {
	case was.historyTotals == nil:
	case interval > maxHistoryInterval:
		h.bases[1] = historyBase{}
	default:
		h.samples[h.taken%historySize] = newSample(was.historyTotals, now.historyTotals, interval, now.at)
		h.exports.addSamples(h.taken, was.exports, now.exports, interval)
		h.addresses.addSamples(h.taken, was.addresses, now.addresses, interval)
		h.taken++
	}
}

// listSamples returns the samples of the last hour, the oldest first.
func (h *History) listSamples(now time.Duration) []historySample {
	var all []historySample
	for i := max(h.taken-historySize, 0); i < h.taken; i++ {
		if s := h.samples[i%historySize]; now-s.end <= historySpan {
			all = append(all, s)
		}
	}
	return all
}

// recentBase returns the last reading of the counters that is at least half an interval old, so
// that the mean since then means something. Without one it returns the last reading.
func (h *History) recentBase(now time.Duration) historyBase {
	if h.bases[1].historyTotals != nil && now-h.bases[0].at < historyInterval/2 {
		return h.bases[1]
	}
	return h.bases[0]
}
