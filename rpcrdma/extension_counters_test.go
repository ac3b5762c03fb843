package rpcrdma

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"math"
	"net"
	"testing"
	"testing/synctest"

	"github.com/nfsrdma/nfsrdma/cmpriv"
	"github.com/nfsrdma/nfsrdma/internal/fairshare"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/rdmatest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// delegationConfig returns the configuration for an end that offers all extensions and that many
// counters.
func (s *extensionRecorder) delegationConfig(counters int) *ExtensionConfig {
	x := s.newConfig(4)
	x.Delegation, x.Counters = true, counters
	return x
}

// privateDataWith returns a requester's private data with a block.
func privateDataWith(e cmpriv.Extension) []byte { return e.AppendTo(linux.AppendTo(nil)) }

var everything = cmpriv.Extension{Immediate: true, Atomics: true, Delegation: true, ImmediateRecvs: 4}

// requireUnmapped checks that f leaks no counters.
func requireUnmapped(t *testing.T, f func()) {
	t.Helper()
	f()
	assert.Zero(t, mappedBytes.Load(), "bytes of counters")
}

// TestCountersGolden checks the exact bytes on the wire at set-up: the upper
// layers agree before anything in RFC 7306 is used (R7306-1.1-2).
func TestCountersGolden(t *testing.T) {
	const (
		message = "f6ab0e18 01 01 03 03"
		request = message + "6e667278 01 07 0004 00000000 0000000000000000 00000000"
		reply   = message + "6e667278 01 07 0004 00000100 0000010000000000 00000020" // with rdmatest's addresses
		without = message + "6e667278 01 03 0004 00000000 0000000000000000 00000000"
	)
	golden := func(s string) string { return string(bytes.ReplaceAll([]byte(s), []byte(" "), nil)) }
	for name, tt := range map[string]struct {
		client, server *ExtensionConfig
		request, reply string
	}{
		"both":                   {new(extensionRecorder).delegationConfig(0), new(extensionRecorder).delegationConfig(32), request, reply},
		"client not extended":    {nil, new(extensionRecorder).delegationConfig(32), message, message},
		"server not extended":    {new(extensionRecorder).delegationConfig(0), nil, request, message},
		"neither":                {nil, nil, message, message},
		"client delegates not":   {new(extensionRecorder).newConfig(4), new(extensionRecorder).delegationConfig(32), without, without},
		"server delegates not":   {new(extensionRecorder).delegationConfig(0), new(extensionRecorder).newConfig(4), request, without},
		"neither end delegates":  {new(extensionRecorder).newConfig(4), new(extensionRecorder).newConfig(4), without, without},
		"counters of the client": {new(extensionRecorder).delegationConfig(7), new(extensionRecorder).delegationConfig(32), request, reply},
	} {
		t.Run(name, func(t *testing.T) {
			withServer(t, &Server{Handler: null, Extensions: tt.server}, func(t *testing.T, r *testServer) {
				c, err := DialConn(t.Context(), &memDialer{l: r.listen}, "", ClientConnConfig{Extensions: tt.client})
				require.NoError(t, err)
				synctest.Wait()
				assert.Equal(t, golden(tt.request), hex.EncodeToString(r.onlyConn().rc.PrivateData()))
				assert.Equal(t, golden(tt.reply), hex.EncodeToString(c.Conn().PrivateData()))
				on := tt.reply == reply
				assert.Equal(t, on, c.ExtensionConn() != nil && c.ExtensionConn().Extensions().Delegation)
				require.NoError(t, c.Close())
			})
		})
	}
}

// A depthRegistrar is a connection on which the peer can have no RDMA Reads
// outstanding.
type depthRegistrar struct{ rdma.Registrar }

func (depthRegistrar) ReadDepth() (ird, ord int) { return 0, 16 }

// A depthListener makes shallowRegistrars.
type depthListener struct{ rdma.Listener }

func (l depthListener) Accept(ctx context.Context) (rdma.ConnRequest, error) {
	r, err := l.Listener.Accept(ctx)
	return depthRequest{r}, err
}

type depthRequest struct{ rdma.ConnRequest }

func (r depthRequest) Accept(cc rdma.ConnConfig) (rdma.Conn, error) {
	prepare := cc.Prepare
	cc.Prepare = func(m rdma.Registrar) []byte { return prepare(depthRegistrar{m}) }
	c, err := r.ConnRequest.Accept(cc)
	return depthConn{c, 0, 16}, err
}

// TestCountersOffered checks that the server makes and offers counters only for
// a requester that can use them (R7306-1.1-2).
func TestCountersOffered(t *testing.T) {
	but := func(f func(e *cmpriv.Extension)) cmpriv.Extension {
		e := everything
		f(&e)
		return e
	}
	for name, tt := range map[string]struct {
		theirs  cmpriv.Extension
		shallow bool
		want    bool
	}{
		"all":               {everything, false, true},
		"no delegation":     {but(func(e *cmpriv.Extension) { e.Delegation = false }), false, false},
		"no immediate data": {but(func(e *cmpriv.Extension) { e.Immediate = false }), false, false},
		"no receives":       {but(func(e *cmpriv.Extension) { e.ImmediateRecvs = 0 }), false, false},
		"no atomics":        {but(func(e *cmpriv.Extension) { e.Atomics = false }), false, false},
		"ORD of 0":          {everything, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			requireUnmapped(t, func() {
				synctest.Test(t, func(t *testing.T) {
					theirs, l := new(extensionRecorder), rdmatest.Listen(t)
					s := &Server{Handler: null, Extensions: theirs.delegationConfig(512)}
					served := make(chan error, 1)
					var on rdma.Listener = l
					if tt.shallow {
						on = depthListener{l}
					}
					go func() { served <- s.Serve(on) }()
					p := dialRawExtPeer(t, l, privateDataWith(tt.theirs))
					block, ok := cmpriv.ParseExtension(p.PrivateData())
					require.True(t, ok)
					assert.Equal(t, tt.want, block.Delegation)
					assert.Equal(t, tt.want, mappedBytes.Load() == 512*8)
					if !tt.want {
						assert.Zero(t, mappedBytes.Load())
						assert.Zero(t, block.CounterSTag|block.CounterSlots)
						assert.Zero(t, block.CounterTO)
					}
					for _, link := range theirs.conns {
						assert.Equal(t, tt.want, link.Extensions().Delegation)
						assert.Equal(t, tt.want, link.Counters() != nil)
					}
					p.Abort(nil)
					require.NoError(t, s.Shutdown(t.Context()))
					require.NoError(t, <-served)
				})
			})
		})
	}
}

// TestCountersBelieved checks that the client accepts only plausible counters,
// and only if all other extensions are on.
func TestCountersBelieved(t *testing.T) {
	there := everything
	there.CounterSTag, there.CounterTO, there.CounterSlots = 9, 64, 512
	for name, tt := range map[string]struct {
		change func(e *cmpriv.Extension)
		want   bool
	}{
		"all":                {func(*cmpriv.Extension) {}, true},
		"no delegation":      {func(e *cmpriv.Extension) { e.Delegation = false }, false},
		"no immediate data":  {func(e *cmpriv.Extension) { e.Immediate = false }, false},
		"no atomics":         {func(e *cmpriv.Extension) { e.Atomics = false }, false},
		"no counters":        {func(e *cmpriv.Extension) { e.CounterSlots = 0 }, false},
		"no slot":            {func(e *cmpriv.Extension) { e.CounterSlots = 1 }, false},
		"one slot":           {func(e *cmpriv.Extension) { e.CounterSlots = 2 }, true},
		"too many":           {func(e *cmpriv.Extension) { e.CounterSlots = 1<<24 + 1 }, false},
		"beyond all offsets": {func(e *cmpriv.Extension) { e.CounterTO = math.MaxUint64 - 512*8 + 1 }, false},
		"up to the last":     {func(e *cmpriv.Extension) { e.CounterTO = math.MaxUint64 - 512*8 }, true},
	} {
		t.Run(name, func(t *testing.T) {
			e := there
			tt.change(&e)
			s := new(extensionRecorder)
			withRawExtServer(t, privateDataWith(e), s.delegationConfig(0), func(t *testing.T, c *ClientConn, p *rawExtPeer) {
				assert.Equal(t, tt.want, c.ExtensionConn().Extensions().Delegation)
				assert.Nil(t, c.ExtensionConn().Counters())
				assert.Equal(t, rdma.Remote{STag: 9, TO: e.CounterTO + 24}, c.ExtensionConn().Counter(3))
			})
		})
	}
}

func TestCountersConfig(t *testing.T) {
	s := new(extensionRecorder)
	for _, n := range []int{0, 1, 1<<24 + 1, -1} {
		assert.Error(t, s.delegationConfig(n).checkConfig(true), n)
		assert.NoError(t, s.delegationConfig(n).checkConfig(false), "a requester has no limit")
	}
	for _, n := range []int{2, 1 << 24} {
		assert.NoError(t, s.delegationConfig(n).checkConfig(true))
	}
	for _, x := range []*ExtensionConfig{
		{Delegation: true, Counters: 2},
		{Delegation: true, Counters: 2, Atomics: true},
		{Delegation: true, Counters: 2, ImmediateRecvs: 1, Attach: s.attachConn},
	} {
		assert.Error(t, (&ClientConnConfig{Extensions: x}).fillAndCheck())
		assert.Error(t, (&Server{Handler: null, Extensions: x}).init())
	}
}

// TestCounters checks that the words are initially zero, and the same for both
// ends; they exist until Closed has returned, and no longer.
func TestCounters(t *testing.T) {
	theirs, ours := new(extensionRecorder), new(extensionRecorder)
	requireUnmapped(t, func() {
		withServer(t, &Server{Handler: null, Extensions: theirs.delegationConfig(8)}, func(t *testing.T, r *testServer) {
			c, err := DialConn(t.Context(), &memDialer{l: r.listen}, "", ClientConnConfig{Extensions: ours.delegationConfig(0)})
			require.NoError(t, err)
			server, client := theirs.onlyExtConn(t), ours.onlyExtConn(t)
			assert.Equal(t, Extensions{4, true, true}, client.Extensions())
			assert.Equal(t, make([]byte, 64), server.Counters())
			assert.EqualValues(t, 8, client.Peer().CounterSlots)
			box := make(completionChan, 8)
			for n := range uint32(8) {
				require.NoError(t, client.Atomic(rdma.OpFetchAdd, client.Counter(n), rdma.Atomic{Operand: uint64(n) + 1}, box, uint64(n)))
				assert.Equal(t, rdma.Completion{ID: uint64(n), Op: rdma.OpFetchAdd}, <-box)
				w, err := rdma.Word(server.Counters(), int(8*n))
				require.NoError(t, err)
				assert.EqualValues(t, n+1, w.Load())
				require.True(t, w.CompareAndSwap(uint64(n)+1, 100))
				require.NoError(t, client.Atomic(rdma.OpFetchAdd, client.Counter(n), rdma.Atomic{}, box, 0))
				assert.EqualValues(t, 100, (<-box).Original)
			}
			theirs.onClosed = func(l *ExtensionConn) { assert.EqualValues(t, 100, l.Counters()[56], "still there") }
			require.NoError(t, c.Close())
			assert.Len(t, theirs.closeErrors(), 1)
			assert.Nil(t, server.Counters())
			assert.Zero(t, mappedBytes.Load())
		})
	})
}

// TestCountersRights checks that the counters permit only atomic operations.
func TestCountersRights(t *testing.T) {
	for _, op := range []rdma.Op{rdma.OpWrite, rdma.OpRead} {
		theirs := new(extensionRecorder)
		withServer(t, &Server{Handler: null, Extensions: theirs.delegationConfig(8)}, func(t *testing.T, r *testServer) {
			p := dialRawExtPeer(t, r.listen, privateDataWith(everything))
			block, _ := cmpriv.ParseExtension(p.PrivateData())
			require.NoError(t, p.Post(rdma.WR{
				Op: op, Data: [][]byte{make([]byte, 8)}, Remote: rdma.Remote{STag: rdma.STag(block.CounterSTag), TO: block.CounterTO},
			}))
			assert.ErrorIs(t, p.closeError(), rdmatest.ErrAccess)
		})
	}
}

// TestCountersFreed makes a thousand connections, cuts every second one at the
// peer, and checks that no counters leak.
func TestCountersFreed(t *testing.T) {
	theirs := new(extensionRecorder)
	requireUnmapped(t, func() {
		withServer(t, &Server{Handler: null, Extensions: theirs.delegationConfig(1 << 16)}, func(t *testing.T, r *testServer) {
			for i := range 1000 {
				p := dialRawExtPeer(t, r.listen, privateDataWith(everything))
				block, _ := cmpriv.ParseExtension(p.PrivateData())
				require.NoError(t, p.Post(rdma.WR{Op: rdma.OpFetchAdd, Remote: rdma.Remote{STag: rdma.STag(block.CounterSTag), TO: block.CounterTO}}))
				synctest.Wait()
				if i%2 == 0 {
					p.Abort(rdmatest.ErrCut)
				} else {
					require.NoError(t, p.Close())
				}
				synctest.Wait()
				require.Zero(t, mappedBytes.Load())
			}
			assert.Len(t, theirs.closeErrors(), 1000)
		})
	})
}

// TestCountersShared checks that a party's counters take no more than its
// share, and that its further connections have none; a connection's memory is
// released once, at its end.
func TestCountersShared(t *testing.T) {
	const counters, each = 1 << 16, 1 << 19
	theirs := new(extensionRecorder)
	requireUnmapped(t, func() {
		withServer(t, &Server{Handler: null, Extensions: theirs.delegationConfig(counters), MaxMemory: 64 << 20}, func(t *testing.T, r *testServer) {
			const fit = 64 << 20 / 2 / 8 / each
			from := func(host byte) (*rawExtPeer, bool) {
				r.tap.from = &net.TCPAddr{IP: net.IPv4(198, 51, 100, host), Port: 1000}
				p := dialRawExtPeer(t, r.listen, privateDataWith(everything))
				block, ok := cmpriv.ParseExtension(p.PrivateData())
				require.True(t, ok)
				require.True(t, block.Immediate)
				assert.Equal(t, block.Delegation, block.CounterSlots > 0)
				return p, block.Delegation
			}
			var some []*rawExtPeer
			for range fit {
				p, on := from(1)
				require.True(t, on)
				some = append(some, p)
			}
			p, on := from(1)
			assert.False(t, on, "it has its part")
			p.Abort(nil)
			_, on = from(2)
			assert.True(t, on, "another's")
			assert.EqualValues(t, (fit+1)*each, r.Stats().Counters.InUse)
			assert.Zero(t, r.memory.InUse(), "no call waits for it")
			for range 3 {
				some[0].Abort(nil)
				synctest.Wait()
				assert.EqualValues(t, fit*each, r.Stats().Counters.InUse)
				some[0], on = from(1)
				assert.True(t, on)
				p, on = from(1)
				assert.False(t, on)
				p.Abort(nil)
			}
		})
	})
}

// A brokenRegistrar connection cannot register memory.
type brokenRegistrar struct{}

var errNoMemory = errors.New("too many regions")

func (brokenRegistrar) Register([]byte, rdma.Access) (rdma.Region, error) { return nil, errNoMemory }

// TestCountersImpossible checks that counters that cannot be made are not
// offered, and that the log says why.
func TestCountersImpossible(t *testing.T) {
	requireUnmapped(t, func() {
		var log bytes.Buffer
		memory := fairshare.NewMemory(64, 64, nil)
		cc := rdma.ConnConfig{PrivateData: linux.AppendTo(nil)}
		l := new(extensionRecorder).delegationConfig(8).offerAsResponder(privateDataWith(everything), &cc, memory.Part(), slog.New(slog.NewTextHandler(&log, nil)))
		block, ok := cmpriv.ParseExtension(cc.Prepare(brokenRegistrar{}))
		assert.True(t, ok)
		assert.Equal(t, cmpriv.Extension{Immediate: true, Atomics: true, ImmediateRecvs: 4}, block)
		assert.Contains(t, log.String(), errNoMemory.Error())
		l.freeUnused()
		assert.Zero(t, memory.InUse())
	})
}

// A brokenAcceptListener has peers that are gone when they are accepted.
type brokenAcceptListener struct{ rdma.Listener }

func (l brokenAcceptListener) Accept(ctx context.Context) (rdma.ConnRequest, error) {
	r, err := l.Listener.Accept(ctx)
	return brokenAcceptRequest{r}, err
}

type brokenAcceptRequest struct{ rdma.ConnRequest }

func (r brokenAcceptRequest) Accept(cc rdma.ConnConfig) (rdma.Conn, error) {
	_ = r.Reject(nil)
	cc.Prepare(new(fakeRegistrar))
	return nil, errNoServer
}

// A fakeRegistrar connection registers any memory, and is its only region.
type fakeRegistrar struct{ deregistered bool }

func (f *fakeRegistrar) Register([]byte, rdma.Access) (rdma.Region, error) { return f, nil }
func (f *fakeRegistrar) STag() rdma.STag                                   { return 1 }
func (f *fakeRegistrar) TO() uint64                                        { return 0 }
func (f *fakeRegistrar) Deregister()                                       { f.deregistered = true }

// TestCountersInVain checks that a connection that is not made leaks nothing.
func TestCountersInVain(t *testing.T) {
	requireUnmapped(t, func() {
		synctest.Test(t, func(t *testing.T) {
			theirs, l := new(extensionRecorder), rdmatest.Listen(t)
			s := &Server{Handler: null, Extensions: theirs.delegationConfig(512)}
			served := make(chan error, 1)
			go func() { served <- s.Serve(brokenAcceptListener{l}) }()
			_, err := DialConn(t.Context(), &memDialer{l: l}, "", ClientConnConfig{Extensions: new(extensionRecorder).delegationConfig(0)})
			require.ErrorIs(t, err, rdmatest.ErrRejected)
			synctest.Wait()
			assert.Zero(t, mappedBytes.Load())
			assert.Zero(t, s.counters.InUse())
			assert.Empty(t, theirs.conns)
			require.NoError(t, s.Shutdown(t.Context()))
			require.NoError(t, <-served)
		})
	})
}
