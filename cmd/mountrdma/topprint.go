package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/discover"
)

// clearScreen is the escape sequence that clears a terminal.
const clearScreen = "\x1b[H\x1b[2J"

// printText shows an update as text, with rates since the update before, which may be
// empty.
func (v *topView) printText(c, before *discover.Counters) error {
	var b strings.Builder
	if v.redraw {
		b.WriteString(clearScreen)
	} else if v.shown > 0 {
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%s, up %v", v.server, c.Uptime.Round(time.Second))
	if c.Draining {
		b.WriteString(", draining")
	}
	if v.lost > 0 {
		fmt.Fprintf(&b, ", %d updates lost", v.lost)
	}
	fmt.Fprintf(&b, "\n\n%-20s %12s %10s %10s %10s\n", "VIA", "CONNECTIONS", "SO FAR", "REFUSED", "CALLS NOW")
	for _, t := range c.Transports {
		fmt.Fprintf(&b, "%-20s %12d %10d %10d %10d\n", escapePath(t.Name), t.Connections, t.Accepted, t.Refused, t.UnderWay)
	}
	printProcs(&b, c, before)
	_, err := io.WriteString(v.stdout, b.String())
	return err
}

// printProcs prints the table of procedures, with their sum.
func printProcs(b *strings.Builder, c, before *discover.Counters) {
	fmt.Fprintf(b, "\n%-20s %12s %10s %10s %10s %10s\n", "PROCEDURE", "CALLS/s", "ERRORS/s", "IN MB/s", "OUT MB/s", "MEAN µs")
	seconds := (c.Uptime - before.Uptime).Seconds()
	then := make(map[[2]string]discover.Proc)
	for _, p := range before.Procs {
		then[[2]string{p.Program, p.Name}] = p
	}
	var all discover.Proc
	for _, p := range c.Procs {
		d := procIncrease(p, then[[2]string{p.Program, p.Name}])
		all.Calls, all.Errors, all.In, all.Out, all.Took = all.Calls+d.Calls, all.Errors+d.Errors, all.In+d.In, all.Out+d.Out, all.Took+d.Took
		if d.Calls > 0 || len(before.Procs) == 0 {
			printProcRow(b, escapePath(p.Program)+" "+escapePath(p.Name), &d, seconds)
		}
	}
	printProcRow(b, "all", &all, seconds)
}

// procIncrease returns the increase of the counters since then, or zeros if the counters
// decreased.
func procIncrease(p, then discover.Proc) discover.Proc {
	if p.Calls < then.Calls {
		return discover.Proc{}
	}
	p.Calls, p.Errors, p.In, p.Out, p.Took = p.Calls-then.Calls, p.Errors-then.Errors, p.In-then.In, p.Out-then.Out, p.Took-then.Took
	return p
}

func printProcRow(w io.Writer, name string, d *discover.Proc, seconds float64) {
	seconds = max(seconds, time.Microsecond.Seconds())
	fmt.Fprintf(w, "%-20s %12.1f %10.1f %10.2f %10.2f %10.1f\n", name, float64(d.Calls)/seconds, float64(d.Errors)/seconds,
		float64(d.In)/seconds/1e6, float64(d.Out)/seconds/1e6, toMicros(d.Took)/float64(max(d.Calls, 1)))
}
