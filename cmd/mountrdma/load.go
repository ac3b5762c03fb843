package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// A load is one kind of call, made over and over.
type load struct {
	client *nfsclient.Client
	call   func(ctx context.Context, p []byte) (int, error)
	handle nfs3.FH
	block  int // octets of a buffer
	blocks uint64
	next   func() uint64 // the next block
	turn   atomic.Uint64
	writes bool

	mu    sync.Mutex
	took  histogram
	bytes int64
	err   error
}

// nullLoad is calls that do nothing.
func nullLoad(c *nfsclient.Client) *load {
	return &load{client: c, call: func(ctx context.Context, _ []byte) (int, error) { return 0, c.Null(ctx) }}
}

// newLoad finds out what the calls are to be about.
func newLoad(ctx context.Context, r remote, o *benchOptions) (*load, error) {
	l := &load{client: r.nfs}
	node, err := r.fs.Stat(ctx, r.rest)
	if err != nil {
		return nil, err
	}
	l.handle = node.Handle
	if o.op.Word == "getattr" {
		l.call = func(ctx context.Context, _ []byte) (int, error) {
			_, err := l.client.GetAttr(ctx, l.handle)
			return 0, err
		}
		return l, nil
	}
	if node.Attr.Type != nfs3.TypeReg {
		return nil, errors.New("not a regular file, which " + o.op.Word + " needs")
	}
	info, err := l.client.FSInfo(ctx, r.fs.Root())
	if err != nil {
		return nil, err
	}
	l.writes = strings.HasSuffix(o.op.Word, "write")
	l.call, l.block = l.read, min(int(o.block), int(info.RTMax))
	if l.writes {
		l.call, l.block = l.write, min(int(o.block), int(info.WTMax))
	}
	l.blocks = node.Attr.Size / uint64(max(l.block, 1))
	if l.blocks == 0 || l.block == 0 {
		return nil, fmt.Errorf("has %d octets, less than one block of %d: copy a longer file there, or take a smaller --block", node.Attr.Size, l.block)
	}
	l.next = func() uint64 { return (l.turn.Add(1) - 1) % l.blocks }
	if strings.HasPrefix(o.op.Word, "rand") {
		l.next = func() uint64 { return rand.Uint64N(l.blocks) }
	}
	return l, nil
}

func (l *load) offset() uint64 { return l.next() * uint64(l.block) }

func (l *load) read(ctx context.Context, p []byte) (int, error) {
	res, err := l.client.Read(ctx, l.handle, l.offset(), p)
	if err == nil && len(res.Data) == 0 {
		err = errors.New("became shorter in the meantime")
	}
	return len(res.Data), err
}

func (l *load) write(ctx context.Context, p []byte) (int, error) {
	res, err := l.client.Write(ctx, l.handle, l.offset(), p, nfs3.Unstable)
	return int(res.Count), err
}

// run makes calls for as long as o says, and measures. A call that has begun by
// then is waited for, and counts.
func (l *load) run(ctx context.Context, o *benchOptions) (*benchResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	buffers := make([][]byte, o.depth)
	for i := range buffers {
		buffers[i] = make([]byte, l.block)
		fill(buffers[i])
	}
	var all sync.WaitGroup
	cpu, start := cpuTime(), time.Now()
	for _, p := range buffers {
		all.Go(func() {
			if err := l.repeat(ctx, p, start.Add(o.time)); err != nil {
				cancel()
			}
		})
	}
	all.Wait()
	seconds := time.Since(start).Seconds()
	return l.result(o, seconds, cpuTime()-cpu), l.err
}

// fill makes what is written differ from holes and from what compresses well.
func fill(p []byte) {
	var seed [32]byte
	_, _ = rand.NewChaCha8(seed).Read(p)
}

// repeat is one of the calls under way, and makes one at least.
func (l *load) repeat(ctx context.Context, p []byte, end time.Time) (err error) {
	var took histogram
	var octets int64
	for then := time.Now(); ; {
		n, cerr := l.call(ctx, p)
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
	if l.err == nil { // what comes later is an echo of it
		l.err = err
	}
	return err
}

// end puts what was written on the server's stable storage.
func (l *load) end(ctx context.Context) error {
	if !l.writes {
		return nil
	}
	_, err := l.client.Commit(ctx, l.handle, 0, 0)
	return err
}

func (l *load) result(o *benchOptions, seconds float64, cpu time.Duration) *benchResult {
	return &benchResult{
		Op: o.op.Word, Block: l.block, Depth: o.depth, Seconds: seconds,
		Bytes: l.bytes, Ops: l.took.n, MBps: float64(l.bytes) / 1e6 / seconds, IOPS: float64(l.took.n) / seconds,
		Latency: latency{P50: micro(l.took.quantile(0.5)), P99: micro(l.took.quantile(0.99)), Max: micro(l.took.max)},
		CPU:     cpu.Seconds(),
	}
}
