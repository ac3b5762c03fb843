package main

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/nfs/nfs3"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// A restartableServer serves a sequence of services at one address.
type restartableServer struct {
	t           *testing.T
	addr        string
	newService  func() oncrpc.Service
	srv         *rpcrdma.Server
	ended       chan error
	restarts    atomic.Int64
	maxRestarts atomic.Int64 // limit for restarts by another goroutine
}

// newRestartableServer starts the first server. service creates the service of every
// server.
func newRestartableServer(t *testing.T, service func() oncrpc.Service) *restartableServer {
	r := &restartableServer{t: t, addr: randomLoopback().String() + ":0", newService: service}
	r.startServer()
	t.Cleanup(r.killServer)
	return r
}

func (r *restartableServer) startServer() {
	l, err := iwarp.Open(iwarp.Config{}).Listen("tcp", r.addr)
	if !assert.NoError(r.t, err) {
		return
	}
	r.addr = l.Addr().String()
	r.srv = &rpcrdma.Server{Handler: r.newService(), Log: slog.New(slog.DiscardHandler)}
	r.ended = make(chan error, 1)
	go func(s *rpcrdma.Server, ended chan<- error) { ended <- s.Serve(l) }(r.srv, r.ended)
}

// killServer stops the server at once, like a kill.
func (r *restartableServer) killServer() {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	_ = r.srv.Shutdown(now)
	assert.NoError(r.t, <-r.ended)
}

func (r *restartableServer) restartServer() {
	r.killServer()
	r.startServer()
	r.restarts.Add(1)
}

// A dataCallCounter calls onNth after every n-th READ or WRITE.
type dataCallCounter struct {
	oncrpc.Service
	onNth func()
	n     int64
	calls *atomic.Int64
}

func (c *dataCallCounter) Serve(ctx context.Context, req *oncrpc.Request, rep *oncrpc.Reply) bool {
	proc := uint32(req.Msg[23])
	answer := c.Service.Serve(ctx, req, rep)
	if (proc == nfs3.ProcRead || proc == nfs3.ProcWrite) && c.calls.Add(1)%c.n == 0 {
		c.onNth()
	}
	return answer
}

// TestCopyThroughRestarts checks that a copy survives server restarts during
// READs and WRITEs.
func TestCopyThroughRestarts(t *testing.T) {
	checkLeaks(t)
	dir, src, back := t.TempDir(), t.TempDir(), t.TempDir()
	files, err := posix.Open(dir, posix.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, files.Close()) })
	due, calls := make(chan struct{}, 1), new(atomic.Int64)
	r := newRestartableServer(t, func() oncrpc.Service {
		mux := new(oncrpc.Mux)
		nfs, err := nfsserver.New(nfsserver.Config{
			Exports: []nfsserver.Export{{Path: "/x", FS: files, Clients: exports.Everyone(exports.Options{NoRootSquash: true, Insecure: true})}},
			Key:     [32]byte{1}, // handles remain valid after a restart
			Log:     slog.New(slog.DiscardHandler),
		})
		assert.NoError(t, err)
		nfs.Register(mux)
		return &dataCallCounter{mux, func() {
			select {
			case due <- struct{}{}:
			default:
			}
		}, 4, calls}
	})
	over, restarted := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(restarted)
		for {
			select {
			case <-due:
				if r.restarts.Load() < r.maxRestarts.Load() {
					r.restartServer()
				}
			case <-over:
				return
			}
		}
	}()
	defer func() {
		close(over)
		<-restarted
	}()
	for i := range 4 {
		writeFile(t, randomBytes(16<<20+i, byte(i)), src, "t", string(rune('a'+i)))
	}
	url := scheme + r.addr + "/x"
	r.maxRestarts.Store(5)
	mustRun(t, "cp", "-r", filepath.Join(src, "t"), url)
	assert.Equal(t, snapshotTree(t, src), snapshotTree(t, dir))
	assert.EqualValues(t, 5, r.restarts.Load())
	r.maxRestarts.Store(10)
	mustRun(t, "cp", "-r", url+"/t", back)
	assert.Equal(t, snapshotTree(t, filepath.Join(src, "t")), snapshotTree(t, filepath.Join(back, "t")))
	assert.EqualValues(t, 10, r.restarts.Load())
}

// fakeEchoProgram is an RPC program with one procedure, which records the number in its
// arguments and returns its data.
type fakeEchoProgram struct {
	mu         sync.Mutex
	callCounts map[uint32]int
}

func (s *fakeEchoProgram) ServeRPC(_ context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	if c.Proc == 0 {
		return nil
	}
	n := c.Args.Uint32()
	data := c.Args.Item(1 << 20)
	if err := c.Args.Done(); err != nil {
		return err
	}
	s.mu.Lock()
	s.callCounts[n]++
	s.mu.Unlock()
	r.Head = xdr.AppendUint32(r.Head, n)
	r.Head = xdr.AppendUint32(r.Head, uint32(len(data)))
	copy(r.NewItem(len(data)), data)
	return nil
}

// TestClientThroughRestarts checks 64 callers of a line over TCP while the server
// is restarted: each call has its effect and gets its own data.
func TestClientThroughRestarts(t *testing.T) {
	checkLeaks(t)
	const callers, each = 64, 40
	program := &fakeEchoProgram{callCounts: make(map[uint32]int)}
	r := newRestartableServer(t, func() oncrpc.Service {
		mux := &oncrpc.Mux{Log: slog.New(slog.DiscardHandler)}
		mux.Register(400000, 1, program)
		return mux
	})
	l, err := rpcrdma.Dial(t.Context(), iwarp.Open(iwarp.Config{}), r.addr, rpcrdma.ClientConfig{Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	var all sync.WaitGroup
	progress := make(chan struct{}, callers*each)
	for i := range callers {
		data := randomBytes(1<<(4+i%14), byte(i))
		all.Go(func() {
			sink := make([]byte, len(data))
			for j := range each {
				n := uint32(i*each + j)
				x := oncrpc.Exchange{Prog: 400000, Vers: 1, Proc: 1, MaxResults: 8, Sink: sink, Item: data}
				x.Args = xdr.AppendUint32(xdr.AppendUint32(nil, n), uint32(len(data)))
				if !assert.NoError(t, l.Call(t.Context(), &x)) {
					return
				}
				assert.Equal(t, n, x.Results.Uint32())
				assert.Equal(t, data, x.Results.Item(len(data)))
				x.Release()
				clear(sink)
				progress <- struct{}{}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		all.Wait()
	}()
	for over := false; !over; {
		for range rand.N(callers * each / 8) { // calls until the next restart
			select {
			case <-progress:
			case <-done:
				over = true
			}
		}
		r.restartServer()
	}
	assert.Len(t, program.callCounts, callers*each, "each call was executed")
	assert.NoError(t, l.Close())
	t.Log(r.restarts.Load(), "restarts")
}

// TestClientFindsNobody checks that the calls on a soft line fail in time if its
// server never comes back, and that a line releases calls whose context was
// ended.
func TestClientFindsNobody(t *testing.T) {
	checkLeaks(t)
	r := newRestartableServer(t, func() oncrpc.Service { return new(oncrpc.Mux) })
	l, err := rpcrdma.Dial(t.Context(), iwarp.Open(iwarp.Config{}), r.addr, rpcrdma.ClientConfig{
		GiveUp: 300 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	r.killServer()
	_, mute := listenTCPAt(t, r.addr, readUntilClosed)
	x := oncrpc.Exchange{Prog: 400000, Vers: 1}
	assert.ErrorIs(t, l.Call(t.Context(), &x), oncrpc.ErrUnreachable)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, l.Call(ctx, &x), context.DeadlineExceeded)
	assert.False(t, l.Up())
	mute()
	r.startServer()
	assert.ErrorIs(t, l.Call(t.Context(), &x), oncrpc.ErrProgUnavail, "it is back")
	assert.True(t, l.Up())
	assert.NoError(t, l.Close())
	assert.ErrorIs(t, l.Call(t.Context(), &x), rdma.ErrClosed)
}
