package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// roleWord is the first argument of a process that plays a role.
const roleWord = "as"

// play runs the role of a process that this program has started.
func play(role string, args []string) error {
	f, ok := map[string]func(args []string) error{
		"tcpserver": tcpServer, "tcpclient": tcpClient, "memfs": memFS, "tcpfs": tcpFS, pagePoint: pageFS, "reader": reader, "writer": writer, "lister": lister,
		"reopener": reopener, "delayer": delayer, sealerRole: sealer,
		tlsServerRole: tlsServer, tlsClientRole: tlsClient, gcmRole: gcm,
		"pongserver": pongServer, "pongclient": pongClient, "callclient": callClient,
	}[role]
	if !ok {
		return fmt.Errorf("no role %q", role)
	}
	return f(args)
}

// A clock measures consecutive operations until the time is over.
type clock struct {
	start, end time.Time
	cpu        time.Duration
	then       time.Time
	took       []time.Duration
	bytes      int
}

func startClock(word string) (*clock, error) {
	d, err := time.ParseDuration(word)
	now := time.Now()
	return &clock{start: now, then: now, end: now.Add(d), cpu: cpuTime()}, err
}

// tick records an operation of n bytes, and reports whether time is left.
func (c *clock) tick(n int) bool {
	now := time.Now()
	c.took = append(c.took, now.Sub(c.then))
	c.then = now
	c.bytes += n
	return now.Before(c.end)
}

// pause runs do without measuring it.
func (c *clock) pause(do func() error) error {
	began := time.Now()
	err := do()
	lost := time.Since(began)
	c.start, c.end, c.then = c.start.Add(lost), c.end.Add(lost), c.then.Add(lost)
	return err
}

// print prints the result. The first byte says that the measured time is over; to sort
// takes a while.
func (c *clock) print() error {
	cpu := cpuTime() - c.cpu
	fmt.Println()
	r := result{Seconds: c.then.Sub(c.start).Seconds(), Bytes: float64(c.bytes), Ops: float64(len(c.took)), Client: cpu.Seconds()}
	slices.Sort(c.took)
	micro := func(i int) float64 { return float64(c.took[i]) / 1e3 }
	r.Latency.P50, r.Latency.P99 = micro(len(c.took)/2), micro(len(c.took)*99/100)
	return json.NewEncoder(os.Stdout).Encode(r)
}

// cpuTime returns the CPU time of this process.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
