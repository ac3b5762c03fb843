package main

import (
	"fmt"
	"runtime"
)

// A row compares our programs with a limit, or two variants of our programs.
type row struct {
	name    string // the measured quantity
	against string // the comparison's name; "": nothing
	ours    sideFunc
	limit   sideFunc
	views   []comparedValue
	cpus    int    // how many CPUs it needs
	missing string // why this machine cannot be measured, or ""

	rounds       int
	results      [2][]*result  // for ours, for the limit
	disturbances []disturbance // for each round, the worse values of both sides
}

// A sideFunc measures a row's side once.
type sideFunc func(*testbed) (*result, error)

// A comparedValue is a quantity from the results that is compared.
type comparedValue struct {
	what  string // added to the row's name
	unit  string
	value func(*result) float64
	goal  goal
}

// A goal bounds a ratio or, without a comparison, a value.
type goal struct {
	isMaximum    bool // at most; otherwise at least
	bound        float64
	isDifference bool // bounds the difference, not the ratio
}

func atLeast(x float64) goal    { return goal{bound: x} }
func atMost(x float64) goal     { return goal{isMaximum: true, bound: x} }
func atMostMore(x float64) goal { return goal{isMaximum: true, bound: x, isDifference: true} }

// isMet reports whether x reaches the goal, if there is one.
func (g goal) isMet(x float64) bool {
	return g.bound == 0 || g.isMaximum && x <= g.bound || !g.isMaximum && x >= g.bound
}

// measure adds one result for each side. The order of the sides alternates.
func (r *row) measure(w *testbed) error {
	if r.missing != "" {
		return nil
	}
	sides := [2]sideFunc{r.ours, r.limit}
	var beside disturbance
	w.touchPages()
	for i := range sides {
		i = (i + r.rounds) % len(sides)
		if sides[i] == nil {
			continue
		}
		before := w.readCounters()
		res, err := sides[i](w)
		if err != nil {
			return err
		}
		beside = beside.worst(w.readCounters().disturbanceSince(before))
		r.results[i] = append(r.results[i], res)
	}
	r.disturbances = append(r.disturbances, beside)
	r.rounds++
	return nil
}

// dropResults drops all results.
func (r *row) dropResults() { r.results, r.disturbances = [2][]*result{}, nil }

// series returns v's values for ours and for the limit, from the rounds that count.
func (r *row) series(v *comparedValue) (ours, limit series) {
	count, _ := r.countedRounds()
	for i, counts := range count {
		if counts {
			ours = append(ours, v.value(r.results[0][i]))
		}
		if counts && r.limit != nil {
			limit = append(limit, v.value(r.results[1][i]))
		}
	}
	return ours, limit
}

// countedRounds returns whether each round counts, and how many were disturbed.
// Disturbed rounds count only if there are too few others.
func (r *row) countedRounds() (count []bool, disturbed int) {
	for _, d := range r.disturbances {
		count = append(count, !d.isDisturbing())
		if d.isDisturbing() {
			disturbed++
		}
	}
	if len(count)-disturbed < enoughRounds {
		for i := range count {
			count[i] = true
		}
	}
	return count, disturbed
}

// disturbedText returns the table's text about the disturbed rounds, or "".
func (r *row) disturbedText() string {
	count, n := r.countedRounds()
	if n == 0 {
		return ""
	}
	var worst disturbance
	for _, d := range r.disturbances {
		worst = worst.worst(d)
	}
	fate := "counted"
	if len(count)-n >= enoughRounds {
		fate = "left out"
	}
	return fmt.Sprintf("%d of %d, %s: %s", n, len(count), fate, worst)
}

// isPossible reports whether this machine has enough CPUs for the row.
func (r *row) isPossible() bool { return r.cpus <= runtime.NumCPU() }

// A result is the measurement from one run of one side. Its JSON form is mountrdma
// bench's output; the roles print the same.
type result struct {
	Seconds float64 `json:"seconds"`
	Bytes   float64 `json:"bytes"`
	Ops     float64 `json:"ops"`
	Latency struct {
		P50 float64 `json:"p50"`
		P99 float64 `json:"p99"`
	} `json:"lat_us"`
	Client float64 `json:"client_cpu_s"`

	Server float64 `json:"-"` // CPU seconds used by the server in the measured time
	Memory float64 `json:"-"` // the server's resident memory in bytes
	Calls  float64 `json:"-"` // calls answered by the server, to any program
}

// The compared quantities.
func gigabytesPerSecond(r *result) float64 { return r.Bytes / r.Seconds / 1e9 } // GB/s
func kiloCallsPerSecond(r *result) float64 { return r.Ops / r.Seconds / 1e3 }   // thousands per second
func p50Micros(r *result) float64          { return r.Latency.P50 }             // microseconds
func meanMicros(r *result) float64         { return r.Seconds / r.Ops * 1e6 }   // microseconds, for sequential calls
func p50Millis(r *result) float64          { return r.Latency.P50 / 1e3 }
func cpuPerGiB(r *result) float64          { return (r.Client + r.Server) / (r.Bytes / (1 << 30)) }
func memoryKiB(r *result) float64          { return r.Memory / 1024 }
func elapsedSeconds(r *result) float64     { return r.Seconds }
func serverCalls(r *result) float64        { return r.Calls }
func serverCPUPerCall(r *result) float64   { return r.Server / r.Ops * 1e6 }              // CPU microseconds
func cpuPerCall(r *result) float64         { return (r.Client + r.Server) / r.Ops * 1e6 } // CPU microseconds
