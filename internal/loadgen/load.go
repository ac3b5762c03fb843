package loadgen

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsclient/nfs4client"
)

// Ops are the kinds of call: READ and WRITE for a file's blocks in sequential or
// random order, GETATTR, whole directory listings, opening and reading a
// directory's files one after another, and NULL. With NFSv4, NULL is SEQUENCE.
var Ops = []string{"read", "write", "randread", "randwrite", "getattr", "readdirplus", "open", "null"}

// A Config selects the calls.
type Config struct {
	Op    string // one of Ops
	Block int    // READ or WRITE size in bytes
	Depth int    // calls in flight on each connection
	Time  time.Duration
}

// A Link is a connection that sends calls: NFSv3, or NFSv4 if Session is set.
type Link struct {
	Client *nfsclient.Client
	FS     *nfsclient.FS // nil if the calls need no object

	Session *nfs4client.Session
	file    *nfs4client.File // file that the calls use, opened by Run
}

// A Result is a measurement's outcome.
type Result struct {
	Block      int // bytes
	Seconds    float64
	Bytes, Ops int64
	CPU        time.Duration // CPU time used by this process

	Min, P50, P95, P99, Max time.Duration // a call's time
	Bars                    []Bar         // all calls
}

// A Load is one kind of call, repeated for the whole measurement.
type Load struct {
	cfg    Config
	call   func(ctx context.Context, c Link, p []byte) (size int, err error)
	block  int // buffer size in bytes
	writes bool
	client *nfsclient.Client // for the COMMIT at the end
	handle nfs3.FH

	open  func(ctx context.Context, c Link) (*nfs4client.File, error) // for NFSv4; may be nil
	files []*nfs4client.File

	mu        sync.Mutex
	durations histogram
	bytes     int64
	err       error
}

// Run sends calls on all links for the configured time, and measures. Calls in
// flight at the end are awaited and counted.
func (l *Load) Run(ctx context.Context, links []Link) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	links, err := l.openFiles(ctx, links)
	if err != nil {
		return Result{}, err
	}
	buffers := make([][]byte, l.cfg.Depth*len(links))
	for i := range buffers {
		buffers[i] = make([]byte, l.block)
		fillRandom(buffers[i])
	}
	var wg sync.WaitGroup
	cpu, start := cpuTime(), time.Now()
	for i, p := range buffers {
		wg.Go(func() {
			if err := l.repeatCall(ctx, links[i%len(links)], p, start.Add(l.cfg.Time)); err != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	seconds := time.Since(start).Seconds()
	return l.newResult(seconds, cpuTime()-cpu), l.err
}

// fillRandom fills p with data that is not zero and does not compress well.
func fillRandom(p []byte) {
	var seed [32]byte
	_, _ = rand.NewChaCha8(seed).Read(p)
}

// repeatCall sends one call after another, at least one.
func (l *Load) repeatCall(ctx context.Context, c Link, p []byte, end time.Time) (err error) {
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
	l.durations.merge(&took)
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

func (l *Load) newResult(seconds float64, cpu time.Duration) Result {
	return Result{
		Block: l.block, Seconds: seconds, Bytes: l.bytes, Ops: l.durations.n,
		CPU: cpu, Min: l.durations.min, P50: l.durations.quantile(0.5), P95: l.durations.quantile(0.95), P99: l.durations.quantile(0.99), Max: l.durations.max,
		Bars: l.durations.toBars(),
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
