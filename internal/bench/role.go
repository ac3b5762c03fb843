package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// roleWord is the first argument for a process that plays a role.
const roleWord = "as"

// runRole runs the role for which this program has started itself.
func runRole(role string, args []string) error {
	f, ok := map[string]func(args []string) error{
		"tcpserver": runTCPServer, "tcpclient": runTCPClient, "memfs": runMemFS, "tcpfs": runTCPFS, pagePoint: runPageFS, "reader": runReader, "writer": runWriter, "lister": runLister,
		"reopener": runReopener, "delayer": runDelayer, sealerRole: runSealer,
		tlsServerRole: runTLSServer, tlsClientRole: runTLSClient, gcmRole: runGCM,
		"pongserver": runPongServer, "pongclient": runPongClient, "callclient": runCallClient,
	}[role]
	if !ok {
		return fmt.Errorf("no role %q", role)
	}
	return f(args)
}

// An opClock measures consecutive operations until the time is over.
type opClock struct {
	start, end time.Time
	cpu        time.Duration
	lastOp     time.Time
	durations  []time.Duration
	bytes      int
}

func startClock(word string) (*opClock, error) {
	d, err := time.ParseDuration(word)
	now := time.Now()
	return &opClock{start: now, lastOp: now, end: now.Add(d), cpu: cpuTime()}, err
}

// recordOp records an operation on n bytes, and reports whether time remains.
func (c *opClock) recordOp(n int) bool {
	now := time.Now()
	c.durations = append(c.durations, now.Sub(c.lastOp))
	c.lastOp = now
	c.bytes += n
	return now.Before(c.end)
}

// runUnmeasured runs do without measuring it.
func (c *opClock) runUnmeasured(do func() error) error {
	began := time.Now()
	err := do()
	lost := time.Since(began)
	c.start, c.end, c.lastOp = c.start.Add(lost), c.end.Add(lost), c.lastOp.Add(lost)
	return err
}

// printResult prints the result. The first byte signals that the measured time is
// over, because sorting takes a while.
func (c *opClock) printResult() error {
	cpu := cpuTime() - c.cpu
	fmt.Println()
	r := result{Seconds: c.lastOp.Sub(c.start).Seconds(), Bytes: float64(c.bytes), Ops: float64(len(c.durations)), Client: cpu.Seconds()}
	slices.Sort(c.durations)
	micro := func(i int) float64 { return float64(c.durations[i]) / 1e3 }
	r.Latency.P50, r.Latency.P99 = micro(len(c.durations)/2), micro(len(c.durations)*99/100)
	return json.NewEncoder(os.Stdout).Encode(r)
}

// cpuTime returns this process's CPU time.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
