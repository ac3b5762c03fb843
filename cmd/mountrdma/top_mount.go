package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/cli"
)

// isMountPoint reports whether an argument of top is a mount point: a path, which cannot be
// a server's name or address.
func isMountPoint(arg string) bool { return strings.Contains(arg, "/") || arg == "." || arg == ".." }

// mountCounters are a mount's counters at one time, since the mount.
type mountCounters struct {
	device string
	at     time.Time
	age    float64 // seconds
	ops    []opCounters
}

// opCounters are an operation's counters in /proc/self/mountstats: calls and transmissions,
// bytes, and milliseconds summed over all calls.
type opCounters struct {
	Name     string `json:"operation"`
	Calls    uint64 `json:"calls"`
	Sent     uint64 `json:"transmissions"`
	Timeouts uint64 `json:"timeouts"`
	Out      uint64 `json:"bytes_out"`
	In       uint64 `json:"bytes_in"`
	Queue    uint64 `json:"queue_ms"`
	RTT      uint64 `json:"rtt_ms"`
	Execute  uint64 `json:"execute_ms"`
	Errors   uint64 `json:"errors"`
}

// counters returns the counters in the order of /proc/self/mountstats.
func (o *opCounters) counters() []*uint64 {
	return []*uint64{&o.Calls, &o.Sent, &o.Timeouts, &o.Out, &o.In, &o.Queue, &o.RTT, &o.Execute, &o.Errors}
}

// subtract returns the increase since then.
func (o opCounters) subtract(then *opCounters) opCounters {
	before := then.counters()
	for i, n := range o.counters() {
		*n -= min(*n, *before[i])
	}
	return o
}

// add returns the sum with a.
func (o opCounters) add(a *opCounters) opCounters {
	more := a.counters()
	for i, n := range o.counters() {
		*n += *more[i]
	}
	return o
}

// parseMountStats reads the counters from the text of mountstats.
func parseMountStats(text string, at time.Time) (*mountCounters, error) {
	c := &mountCounters{at: at}
	perOp := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		name, rest, _ := strings.Cut(line, ":")
		switch {
		case strings.HasPrefix(line, "device "):
			c.device, _, _ = strings.Cut(strings.TrimPrefix(line, "device "), " mounted on ")
		case name == "age":
			c.age, _ = strconv.ParseFloat(strings.TrimSpace(rest), 64)
		case line == "per-op statistics":
			perOp = true
		case perOp && line != "":
			op := opCounters{Name: name}
			words, into := strings.Fields(rest), op.counters()
			if len(words) < len(into) {
				return nil, fmt.Errorf("the mount's process has fewer counters than expected: %q", line)
			}
			for i, n := range into {
				v, err := strconv.ParseUint(words[i], 10, 64)
				if err != nil {
					return nil, fmt.Errorf("invalid counters from the mount's process: %w", err)
				}
				*n = v
			}
			c.ops = append(c.ops, op)
		}
	}
	if len(c.ops) == 0 {
		return nil, errors.New("the mount's process sent no counters")
	}
	return c, nil
}

// topMount shows a mount's counters until it has shown o.count updates.
func (a *app) topMount(ctx context.Context, o *topOptions) error {
	redraw := !o.json && cli.IsTerminal(a.stdout)
	last := new(mountCounters)
	tick := time.NewTicker(o.interval)
	defer tick.Stop()
	for shown := 0; ; {
		var text strings.Builder
		if err := showMountStats(o.server, &text); err != nil {
			return err
		}
		c, err := parseMountStats(text.String(), time.Now())
		if err != nil {
			return err
		}
		if o.json {
			err = printJSON(a.stdout, c.newDocument(o.server))
		} else {
			err = c.printText(a.stdout, o.server, last, redraw, shown > 0)
		}
		if shown++; err != nil || shown == o.count {
			return err
		}
		last = c
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// mountDocument is an update as JSON, which scripts depend on. Its counters count since the
// mount.
type mountDocument struct {
	Mount      string       `json:"mount"`
	Device     string       `json:"device"`
	At         time.Time    `json:"at"`
	Age        float64      `json:"age_seconds"`
	Operations []opCounters `json:"operations"`
}

func (c *mountCounters) newDocument(point string) *mountDocument {
	return &mountDocument{Mount: point, Device: c.device, At: c.at, Age: c.age, Operations: c.ops}
}

// printText shows the rates since last, or if that is empty, since the mount.
func (c *mountCounters) printText(w io.Writer, point string, last *mountCounters, redraw, further bool) error {
	var b strings.Builder
	switch {
	case redraw:
		b.WriteString(clearScreen)
	case further:
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%s on %s, mounted for %v\n\n", escapePath(c.device), escapePath(point), time.Duration(c.age)*time.Second)
	fmt.Fprintf(&b, "%-12s %10s %10s %10s %9s %9s %9s %9s %9s\n", "OPERATION", "OPS/s", "kB/s", "kB/OP", "RETRANS", "RTT ms", "EXE ms", "QUEUE ms", "ERRORS")
	if c.age < last.age {
		last = new(mountCounters) // last is from an earlier mount on the same mount point
	}
	seconds := max(c.age, 1) // the age has a resolution of one second
	if last.ops != nil {
		seconds = c.at.Sub(last.at).Seconds()
	}
	before := make(map[string]*opCounters)
	for i := range last.ops {
		before[last.ops[i].Name] = &last.ops[i]
	}
	all := opCounters{Name: "all"}
	for _, op := range c.ops {
		if then := before[op.Name]; then != nil {
			op = op.subtract(then)
		}
		all = all.add(&op)
		if op.Calls > 0 || op.Name == "READ" || op.Name == "WRITE" {
			op.printRow(&b, seconds)
		}
	}
	all.printRow(&b, seconds)
	_, err := io.WriteString(w, b.String())
	return err
}

// printRow prints an operation's rates, as nfsiostat does.
func (o *opCounters) printRow(w io.Writer, seconds float64) {
	seconds, calls := max(seconds, time.Microsecond.Seconds()), float64(max(o.Calls, 1))
	kB := float64(o.Out+o.In) / 1024 // nfsiostat's kilobytes
	fmt.Fprintf(w, "%-12s %10.1f %10.1f %10.3f %9d %9.3f %9.3f %9.3f %9d\n", o.Name, float64(o.Calls)/seconds, kB/seconds, kB/calls,
		o.Sent-min(o.Sent, o.Calls), float64(o.RTT)/calls, float64(o.Execute)/calls, float64(o.Queue)/calls, o.Errors)
}
