package main

import (
	"fmt"
	"runtime"
)

// A row compares ours with a limit, or with another variant of ours.
type row struct {
	name    string // the measured quantity
	against string // the comparison's name; "": nothing
	ours    side
	limit   side
	views   []view
	cpus    int    // the number of CPUs that it needs
	lacks   string // why this machine cannot be measured, or ""

	turns   int
	results [2][]*result  // of ours, of the limit
	beside  []disturbance // of each round, the worse one of both sides
}

// A side of a row measures one thing once.
type side func(*world) (*result, error)

// A view is a compared quantity of the results.
type view struct {
	what string // added to the row's name
	unit string
	of   func(*result) float64
	goal goal
}

// A goal is the bound of a ratio or, without a comparison, of a value.
type goal struct {
	most  bool // at most, otherwise at least,
	bound float64
	more  bool // a bound of the difference, not of the ratio
}

func atLeast(x float64) goal    { return goal{bound: x} }
func atMost(x float64) goal     { return goal{most: true, bound: x} }
func atMostMore(x float64) goal { return goal{most: true, bound: x, more: true} }

// met reports whether x reaches the goal, if there is one.
func (g goal) met(x float64) bool {
	return g.bound == 0 || g.most && x <= g.bound || !g.most && x >= g.bound
}

// measure adds one result of each side. The order of the sides alternates.
func (r *row) measure(w *world) error {
	if r.lacks != "" {
		return nil
	}
	sides := [2]side{r.ours, r.limit}
	var beside disturbance
	w.touch()
	for i := range sides {
		i = (i + r.turns) % len(sides)
		if sides[i] == nil {
			continue
		}
		before := w.snapshot()
		res, err := sides[i](w)
		if err != nil {
			return err
		}
		beside = beside.worse(w.snapshot().since(before))
		r.results[i] = append(r.results[i], res)
	}
	r.beside = append(r.beside, beside)
	r.turns++
	return nil
}

// forget drops all results.
func (r *row) forget() { r.results, r.beside = [2][]*result{}, nil }

// series returns a view's values of ours and of the limit, of the rounds that count.
func (r *row) series(v *view) (ours, limit series) {
	count, _ := r.counted()
	for i, counts := range count {
		if counts {
			ours = append(ours, v.of(r.results[0][i]))
		}
		if counts && r.limit != nil {
			limit = append(limit, v.of(r.results[1][i]))
		}
	}
	return ours, limit
}

// counted returns for each round whether it counts, and how many were disturbed. Disturbed rounds count
// only if the others are not enough.
func (r *row) counted() (count []bool, disturbed int) {
	for _, d := range r.beside {
		count = append(count, !d.disturbs())
		if d.disturbs() {
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

// disturbed returns the table's word for the disturbed rounds, or "".
func (r *row) disturbed() string {
	count, n := r.counted()
	if n == 0 {
		return ""
	}
	var worst disturbance
	for _, d := range r.beside {
		worst = worst.worse(d)
	}
	fate := "counted"
	if len(count)-n >= enoughRounds {
		fate = "left out"
	}
	return fmt.Sprintf("%d of %d, %s: %s", n, len(count), fate, worst)
}

// possible reports whether this machine has enough CPUs for the row.
func (r *row) possible() bool { return r.cpus <= runtime.NumCPU() }

// A result is the measurement of one run of one side. Its JSON form is the
// output of mountrdma bench; the roles print the same.
type result struct {
	Seconds float64 `json:"seconds"`
	Bytes   float64 `json:"bytes"`
	Ops     float64 `json:"ops"`
	Latency struct {
		P50 float64 `json:"p50"`
		P99 float64 `json:"p99"`
	} `json:"lat_us"`
	Client float64 `json:"client_cpu_s"`

	Server float64 `json:"-"` // seconds of CPU, of the server, in the measured time
	Memory float64 `json:"-"` // resident bytes of the server
	Calls  float64 `json:"-"` // answered by the server, of any program
}

// The compared quantities.
func rate(r *result) float64            { return r.Bytes / r.Seconds / 1e9 } // GB/s
func calls(r *result) float64           { return r.Ops / r.Seconds / 1e3 }   // thousands a second
func p50(r *result) float64             { return r.Latency.P50 }             // microseconds
func mean(r *result) float64            { return r.Seconds / r.Ops * 1e6 }   // microseconds, of calls one after the other
func p50ms(r *result) float64           { return r.Latency.P50 / 1e3 }
func perGiB(r *result) float64          { return (r.Client + r.Server) / (r.Bytes / (1 << 30)) }
func kib(r *result) float64             { return r.Memory / 1024 }
func seconds(r *result) float64         { return r.Seconds }
func served(r *result) float64          { return r.Calls }
func perCallOfServer(r *result) float64 { return r.Server / r.Ops * 1e6 }              // microseconds of CPU
func perCall(r *result) float64         { return (r.Client + r.Server) / r.Ops * 1e6 } // microseconds of CPU
