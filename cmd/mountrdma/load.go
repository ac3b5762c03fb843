package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// A load is one kind of call, repeated for the whole measurement.
type load struct {
	call   func(ctx context.Context, c link, p []byte) (octets int, err error)
	block  int // bytes of a buffer
	writes bool
	client *nfsclient.Client // for the COMMIT at the end
	handle nfs3.FH

	mu    sync.Mutex
	took  histogram
	bytes int64
	err   error
}

// run makes calls for the time that o sets, and measures. Calls under way at
// the end are awaited and counted.
func (l *load) run(ctx context.Context, o *benchOptions, links []link) (*benchResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	buffers := make([][]byte, o.depth*len(links))
	for i := range buffers {
		buffers[i] = make([]byte, l.block)
		fill(buffers[i])
	}
	var all sync.WaitGroup
	cpu, start := cpuTime(), time.Now()
	for i, p := range buffers {
		all.Go(func() {
			if err := l.repeat(ctx, links[i%len(links)], p, start.Add(o.time)); err != nil {
				cancel()
			}
		})
	}
	all.Wait()
	seconds := time.Since(start).Seconds()
	return l.result(o, seconds, cpuTime()-cpu), l.err
}

// fill fills p with data that differ from holes and do not compress well.
func fill(p []byte) {
	var seed [32]byte
	_, _ = rand.NewChaCha8(seed).Read(p)
}

// repeat makes one call after the other, at least one.
func (l *load) repeat(ctx context.Context, c link, p []byte, end time.Time) (err error) {
	var took histogram
	var octets int64
	for then := time.Now(); ; {
		n, cerr := l.call(ctx, c, p)
		if err = cerr; err != nil {
			break
		}
		now := time.Now()
		took.add(now.Sub(then))
		octets += int64(n)
		if then = now; !now.Before(end) {
			break
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took.merge(&took)
	l.bytes += octets
	if l.err == nil { // later errors are consequences of the first
		l.err = err
	}
	return err
}

// end puts the written data on the server's stable storage.
func (l *load) end(ctx context.Context) error {
	if !l.writes {
		return nil
	}
	_, err := l.client.Commit(ctx, l.handle, 0, 0)
	return err
}

func (l *load) result(o *benchOptions, seconds float64, cpu time.Duration) *benchResult {
	return &benchResult{
		Op: o.op.Word, Block: l.block, Depth: o.depth, Connections: o.connections, Seconds: seconds,
		Bytes: l.bytes, Ops: l.took.n, MBps: float64(l.bytes) / 1e6 / seconds, IOPS: float64(l.took.n) / seconds,
		Latency: latency{P50: micro(l.took.quantile(0.5)), P99: micro(l.took.quantile(0.99)), Max: micro(l.took.max)},
		CPU:     cpu.Seconds(),
	}
}
