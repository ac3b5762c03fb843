package loadgen

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfs4client"
	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// Ops are the kinds of call: READ and WRITE of the blocks of a file in turn or
// in random order, GETATTR, whole listings of a directory, the use of one file
// of a directory after the other, and NULL. By version 4, NULL is SEQUENCE.
var Ops = []string{"read", "write", "randread", "randwrite", "getattr", "readdirplus", "open", "null"}

// A Config selects the calls.
type Config struct {
	Op    string // of Ops
	Block int    // bytes of a READ or WRITE
	Depth int    // calls under way on each connection
	Time  time.Duration
}

// A Link is a connection that makes calls: of version 3, or with Session of
// version 4.
type Link struct {
	Client *nfsclient.Client
	FS     *nfsclient.FS // nil if the calls need no object

	Session *nfs4client.Session
	file    *nfs4client.File // that the calls use, opened by Run
}

// A Result is the outcome of a measurement.
type Result struct {
	Block      int // bytes
	Seconds    float64
	Bytes, Ops int64
	CPU        time.Duration // that this process has used

	Min, P50, P95, P99, Max time.Duration // of a call
	Bars                    []Bar         // all calls
}

// A Load is one kind of call, repeated for the whole measurement.
type Load struct {
	cfg    Config
	call   func(ctx context.Context, c Link, p []byte) (size int, err error)
	block  int // bytes of a buffer
	writes bool
	client *nfsclient.Client // for the COMMIT at the end
	handle nfs3.FH

	open  func(ctx context.Context, c Link) (*nfs4client.File, error) // of version 4; may be nil
	files []*nfs4client.File

	mu    sync.Mutex
	took  histogram
	bytes int64
	err   error
}

// Run makes calls on all links for the configured time, and measures. Calls under way at
// the end are awaited and counted.
func (l *Load) Run(ctx context.Context, links []Link) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	links, err := l.opened(ctx, links)
	if err != nil {
		return Result{}, err
	}
	buffers := make([][]byte, l.cfg.Depth*len(links))
	for i := range buffers {
		buffers[i] = make([]byte, l.block)
		fill(buffers[i])
	}
	var all sync.WaitGroup
	cpu, start := cpuTime(), time.Now()
	for i, p := range buffers {
		all.Go(func() {
			if err := l.repeat(ctx, links[i%len(links)], p, start.Add(l.cfg.Time)); err != nil {
				cancel()
			}
		})
	}
	all.Wait()
	seconds := time.Since(start).Seconds()
	return l.result(seconds, cpuTime()-cpu), l.err
}

// fill fills p with data that differ from holes and do not compress well.
func fill(p []byte) {
	var seed [32]byte
	_, _ = rand.NewChaCha8(seed).Read(p)
}

// repeat makes one call after the other, at least one.
func (l *Load) repeat(ctx context.Context, c Link, p []byte, end time.Time) (err error) {
	var took histogram
	var size int64
	for then := time.Now(); ; {
		n, cerr := l.call(ctx, c, p)
		if err = cerr; err != nil {
			break
		}
		now := time.Now()
		took.add(now.Sub(then))
		size += int64(n)
		if then = now; !now.Before(end) {
			break
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took.merge(&took)
	l.bytes += size
	if l.err == nil { // later errors are consequences of the first
		l.err = err
	}
	return err
}

// End puts the written data on the server's stable storage, and closes files.
func (l *Load) End(ctx context.Context) error {
	if l.files != nil {
		return l.closeFiles(ctx)
	}
	if !l.writes {
		return nil
	}
	_, err := l.client.Commit(ctx, l.handle, 0, 0)
	return err
}

func (l *Load) result(seconds float64, cpu time.Duration) Result {
	return Result{
		Block: l.block, Seconds: seconds, Bytes: l.bytes, Ops: l.took.n,
		CPU: cpu, Min: l.took.min, P50: l.took.quantile(0.5), P95: l.took.quantile(0.95), P99: l.took.quantile(0.99), Max: l.took.max,
		Bars: l.took.bars(),
	}
}

// cpuTime returns the CPU time that this process has used.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
