package main

import (
	"context"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc/replay"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A countingServer is the RDMA service of the daemon on a file system that counts.
type countingServer struct {
	t          *testing.T
	fs         *countingFS
	replyCache *replay.Cache
	endpoint   cli.Endpoint
	root       nfs3.FH
	log        *slog.Logger
	device     *iwarp.Device // used by the clients
}

// newCountingServer serves until the test's end, and then checks that nothing is left.
func newCountingServer(t *testing.T) *countingServer {
	t.Helper()
	world := countResources(t)
	g := &countingServer{t: t, log: slog.New(slog.DiscardHandler), device: iwarp.Open(iwarp.Config{CRC: mpa.CRCOff})}
	o := serveOptions{
		listen: "127.0.0.1:0", inline: 4 << 10, credits: 128, maxPayload: 1 << 20,
		crc: cli.NewChoice("auto", "auto"), markers: cli.NewChoice("off", "off"),
	}
	dir, err := posix.Open(t.TempDir(), posix.Options{StateDir: t.TempDir(), Log: g.log})
	require.NoError(t, err)
	g.fs = &countingFS{FS: dir, executed: make(map[string]int)}
	server, err := o.newServer([]nfsserver.Export{{Path: "/x", FS: g.fs, Clients: exports.Everyone(exports.Options{NoRootSquash: true, Insecure: true})}}, t.TempDir(), nil, g.log)
	require.NoError(t, err)
	g.replyCache = o.daemon.replies
	opened, err := o.openRDMA(server)
	require.NoError(t, err)
	g.endpoint = opened[0]
	served := make(chan error, 1)
	go func() { served <- g.endpoint.Serve() }()
	t.Cleanup(func() {
		assert.NoError(t, g.endpoint.Shutdown(context.Background()))
		assert.NoError(t, <-served)
		assert.NoError(t, server.Close())
		assert.NoError(t, dir.Close())
		world.assertReleased(t)
		for _, d := range []*iwarp.Device{o.daemon.device, g.device} {
			now := d.Stats()
			assert.Zero(t, now.Regions, "STags")
			assert.Zero(t, now.Connections)
			assert.Empty(t, now.TerminatesSent)
		}
	})
	line := g.dialClient(g.endpoint.Addr.String())
	defer line.Close()
	g.root, err = nfsclient.NewMount(line, nil).Mnt(t.Context(), "/x")
	require.NoError(t, err)
	return g
}

// dialClient makes a line. It tries again if the connection is cut.
func (g *countingServer) dialClient(addr string) *rpcrdma.Client {
	for {
		line, err := rpcrdma.Dial(context.Background(), g.device, addr, rpcrdma.ClientConfig{Log: g.log})
		if err == nil {
			return line
		}
	}
}

// newLoad returns a load over a line. Its names begin with number first.
func (g *countingServer) newLoad(line *rpcrdma.Client, first int) *callLoad {
	l := &callLoad{client: nfsclient.New(line, nfsclient.Config{}), root: g.root, issued: make(map[string]int)}
	l.names.Store(uint64(first))
	return l
}

// assertExecutedOnce checks that each change was executed once, and returns the number of
// changes.
func (g *countingServer) assertExecutedOnce(loads []*callLoad) int {
	g.t.Helper()
	issued := make(map[string]int)
	for _, l := range loads {
		maps.Copy(issued, l.issued)
	}
	g.fs.mu.Lock()
	defer g.fs.mu.Unlock()
	for change := range issued {
		if n := g.fs.executed[change]; n != 1 {
			g.t.Errorf("%s: executed %d times", change, n)
		}
	}
	assert.Len(g.t, g.fs.executed, len(issued), "changes without a call")
	return len(issued)
}

// TestCutAtEachMessage cuts the connection once in each of many rounds of
// calls: after the first frame, or the second, and so on, in each manner, until
// rounds end before their cut. RFC 5531, Section 4: every call must be executed
// once, and answered.
func TestCutAtEachMessage(t *testing.T) {
	g := newCountingServer(t)
	sizes := []int{100, 5000, 100_000}
	var next, ended, cuts atomic.Int64
	round := func(k int) (*callLoad, error) {
		frame, how := int64(k/int(cutKinds-1)), 1+cutKind(k%int(cutKinds-1))
		var seen atomic.Int64
		c := newCuttingProxy(t, g.endpoint.Addr.String(), func() cutFunc {
			return func(n int) (int, cutKind) {
				if seen.Add(1) == frame+1 {
					return n, how
				}
				return 0, noCut
			}
		})
		defer c.closeProxy()
		line := g.dialClient(c.addr())
		defer line.Close()
		l := g.newLoad(line, k<<8)
		err := l.runRound(t.Context(), sizes)
		if cuts.Add(c.cuts.Load()); c.cuts.Load() == 0 {
			ended.Store(frame)
		}
		return l, err
	}
	var mu sync.Mutex
	var loads []*callLoad
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for ended.Load() == 0 {
				k := int(next.Add(1) - 1)
				l, err := round(k)
				assert.NoError(t, err, "frame %d", k/int(cutKinds-1))
				mu.Lock()
				loads = append(loads, l)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	changes := g.assertExecutedOnce(loads)
	s := g.replyCache.Stats()
	t.Logf("%d frames in a round, %d cuts, %d changes; %d retries answered from the cache, %d by a running call",
		ended.Load(), cuts.Load(), changes, s.Replayed, s.Joined)
	assert.Greater(t, ended.Load(), int64(50))
	assert.NotZero(t, s.Replayed)
}

// TestCutAnywhere has 16 callers make calls of all kinds over connections that
// are cut after random frames and random bytes. CUT_SOAK (a Go duration) sets
// the time; the default is 3 seconds.
func TestCutAnywhere(t *testing.T) {
	length := 3 * time.Second
	if v := os.Getenv("CUT_SOAK"); v != "" {
		var err error
		length, err = time.ParseDuration(v)
		require.NoError(t, err, "CUT_SOAK")
	}
	g := newCountingServer(t)
	g.fs.beforeChange = delayRandomly
	end := time.Now().Add(length)
	c := newCuttingProxy(t, g.endpoint.Addr.String(), func() cutFunc {
		cut := newRandomCut()
		return func(n int) (int, cutKind) {
			if time.Now().After(end) {
				return 0, noCut // lets the last rounds end
			}
			return cut(n)
		}
	})
	loads := make([]*callLoad, 4) // each with its own line
	var wg sync.WaitGroup
	for i := range loads {
		line := g.dialClient(c.addr())
		defer line.Close()
		loads[i] = g.newLoad(line, i<<28)
		for range 4 {
			wg.Go(func() {
				for time.Now().Before(end) && !t.Failed() {
					sizes := []int{8 + rand.N(500), 4096, 8 + rand.N(30_000), 8 + rand.N(300_000)}
					assert.NoError(t, loads[i].runRound(t.Context(), sizes))
				}
			})
		}
	}
	wg.Wait()
	changes, calls := g.assertExecutedOnce(loads), int64(0)
	for _, l := range loads {
		calls += l.calls.Load()
	}
	s := g.replyCache.Stats()
	t.Logf("%d calls, %d of them changes; %d cuts; %d retries answered from the cache, %d by a running call",
		calls, changes, c.cuts.Load(), s.Replayed, s.Joined)
	assert.NotZero(t, s.Replayed)
}

// newRandomCut returns a judge that cuts after a random frame or a random byte,
// early more often than late.
func newRandomCut() cutFunc {
	how := 1 + rand.N(cutKinds-1)
	if rand.N(2) == 0 {
		frames := int(math.Exp(rand.Float64() * math.Log(1000)))
		return func(n int) (int, cutKind) {
			if frames--; frames == 0 {
				return n, how
			}
			return 0, noCut
		}
	}
	left := int(math.Exp(rand.Float64() * math.Log(8<<20)))
	return func(n int) (int, cutKind) {
		if left -= n; left <= 0 {
			return left + n, how
		}
		return 0, noCut
	}
}
