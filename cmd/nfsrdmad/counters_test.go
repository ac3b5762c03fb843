package main

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/cmpriv"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/rdma"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rdma/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// newCounterExtension is attached with the given number of delegation counters.
func newCounterExtension(answer bool, counters int) (*rpcrdma.ExtensionConfig, <-chan *fakeExtensionHandler) {
	x, ends := newExtensionConfig(answer)
	x.Delegation, x.Counters = true, counters
	return x, ends
}

// nullMux answers NULL calls.
func nullMux() *oncrpc.Mux {
	m := new(oncrpc.Mux)
	m.Register(1, 1, nil) // the Mux answers procedure 0 itself
	return m
}

func callNull(ctx context.Context, to oncrpc.Caller) error {
	x := &oncrpc.Exchange{Prog: 1, Vers: 1}
	defer x.Release()
	return to.Call(ctx, x)
}

// A fakeClient is a peer of a server with counters, free to break the rules.
type fakeClient struct {
	rdma.Conn
	block     cmpriv.Extension
	closed    chan error
	serverEnd *fakeExtensionHandler
}

func dialFakeClient(t *testing.T, cfg iwarp.Config, addr string, servers <-chan *fakeExtensionHandler) *fakeClient {
	t.Helper()
	message := cmpriv.Message{SendSize: 4096, RecvSize: 4096}.AppendTo(nil)
	block := cmpriv.Extension{Immediate: true, Atomics: true, Delegation: true, ImmediateRecvs: 16}
	s := &fakeClient{closed: make(chan error, 1)}
	c, err := iwarp.Open(cfg).Dial(t.Context(), addr, rdma.ConnConfig{Handler: closedHandler(s.closed), PrivateData: block.AppendTo(message)})
	require.NoError(t, err)
	s.Conn, s.serverEnd = c, receiveSoon(t, servers)
	s.block, _ = cmpriv.ParseExtension(c.PrivateData())
	require.True(t, s.block.Delegation)
	return s
}

// counterAddr returns the address of the stranger's own word n according to the
// server.
func (s *fakeClient) counterAddr(n uint64) rdma.Remote {
	return rdma.Remote{STag: rdma.STag(s.block.CounterSTag), TO: s.block.CounterTO + 8*n}
}

// fetchAdd adds to a word and returns its previous content.
func (s *fakeClient) fetchAdd(t *testing.T, at rdma.Remote, n uint64) uint64 {
	t.Helper()
	done := make(completionChan, 1)
	require.NoError(t, s.Post(rdma.WR{Op: rdma.OpFetchAdd, Remote: at, Atomic: rdma.Atomic{Operand: n}, Done: done}))
	c := receiveSoon(t, done)
	require.NoError(t, c.Err)
	return c.Original
}

type completionChan chan rdma.Completion

func (c completionChan) Complete(done rdma.Completion) { c <- done }

// TestCountersOutOfReach checks that a forbidden operation on counters, even
// another peer's, gets the standard's error (R7306-5.1.1-5, R7306-5.1.1-6) and
// ends only its own connection.
func TestCountersOutOfReach(t *testing.T) {
	const words = 16
	x, servers := newCounterExtension(false, words)
	cfg := iwarp.Config{CRC: mpa.CRCOff}
	addr := startRDMAServer(t, iwarp.Open(cfg), &rpcrdma.Server{Handler: nullMux(), Extensions: x})
	victim := dialFakeClient(t, cfg, addr, servers)
	add := func(at rdma.Remote) rdma.WR { return rdma.WR{Op: rdma.OpFetchAdd, Remote: at} }
	for name, tt := range map[string]struct {
		wr   func(s *fakeClient) rdma.WR
		want error
	}{
		"another's":      {func(*fakeClient) rdma.WR { return add(victim.counterAddr(0)) }, rdmap.ErrSTagStream},
		"nobody's":       {func(*fakeClient) rdma.WR { return add(rdma.Remote{STag: 0}) }, rdmap.ErrInvalidSTag},
		"behind the end": {func(s *fakeClient) rdma.WR { return add(s.counterAddr(words)) }, rdmap.ErrBounds},
		"not aligned": {func(s *fakeClient) rdma.WR {
			at := s.counterAddr(3)
			at.TO += 4
			return add(at)
		}, rdmap.ErrStream},
		"across the end": {func(s *fakeClient) rdma.WR {
			at := s.counterAddr(words - 1)
			at.TO++
			return add(at)
		}, rdmap.ErrBounds},
		"at the last offset": {func(s *fakeClient) rdma.WR {
			at := s.counterAddr(0)
			at.TO = ^uint64(7)
			return add(at)
		}, rdmap.ErrTOWrap},
		"RDMA Write": {func(s *fakeClient) rdma.WR {
			return rdma.WR{Op: rdma.OpWrite, Data: [][]byte{make([]byte, 8)}, Remote: s.counterAddr(1)}
		}, nil},
		"RDMA Write to a foreign STag": {func(*fakeClient) rdma.WR {
			return rdma.WR{Op: rdma.OpWrite, Data: [][]byte{make([]byte, 8)}, Remote: victim.counterAddr(1)}
		}, ddp.ErrSTagStream},
		"RDMA Read": {func(s *fakeClient) rdma.WR {
			return rdma.WR{Op: rdma.OpRead, Data: [][]byte{make([]byte, 8)}, Remote: s.counterAddr(1)}
		}, rdmap.ErrAccess},
		"RDMA Read of a foreign STag": {func(*fakeClient) rdma.WR {
			return rdma.WR{Op: rdma.OpRead, Data: [][]byte{make([]byte, 8)}, Remote: victim.counterAddr(1)}
		}, rdmap.ErrSTagStream},
		"Invalidate a foreign STag": {func(*fakeClient) rdma.WR {
			return rdma.WR{Op: rdma.OpSend, WithInvalidate: true, Invalidate: rdma.STag(victim.block.CounterSTag)}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			before := victim.fetchAdd(t, victim.counterAddr(0), 1)
			s := dialFakeClient(t, cfg, addr, servers)
			assert.Zero(t, s.fetchAdd(t, s.counterAddr(0), 5))
			require.NoError(t, s.Post(tt.wr(s)))
			err := receiveSoon(t, s.closed)
			var fault *iwarp.Fault
			require.ErrorAs(t, err, &fault)
			assert.True(t, fault.Remote)
			if tt.want != nil {
				assert.ErrorIs(t, err, tt.want)
			}
			receiveSoon(t, s.serverEnd.closed)
			assert.Equal(t, before+1, victim.fetchAdd(t, victim.counterAddr(0), 0))
			assert.Zero(t, victim.fetchAdd(t, victim.counterAddr(1), 0))
		})
	}
	require.NoError(t, victim.Close())
}

// TestCountersComeAndGo opens and ends many connections concurrently, with and
// without a goodbye, in the middle of operations. It checks that each operation
// completes once, before the end of its connection, and that no memory stays
// reachable.
func TestCountersComeAndGo(t *testing.T) {
	const workers, rounds, many = 4, 250, 20
	x, servers := newCounterExtension(false, 1<<16)
	device := iwarp.Open(iwarp.Config{CRC: mpa.CRCOff})
	addr := startRDMAServer(t, device, &rpcrdma.Server{Handler: nullMux(), Extensions: x})
	regions := device.Stats().Regions
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := range rounds {
				message := cmpriv.Message{SendSize: 4096, RecvSize: 4096}.AppendTo(nil)
				block := cmpriv.Extension{Immediate: true, Atomics: true, Delegation: true, ImmediateRecvs: 16}
				closed, done := make(chan error, 1), make(completionChan, many)
				c, err := device.Dial(t.Context(), addr, rdma.ConnConfig{Handler: closedHandler(closed), PrivateData: block.AppendTo(message)})
				if !assert.NoError(t, err) {
					return
				}
				theirs, _ := cmpriv.ParseExtension(c.PrivateData())
				posted := 0
				for n := range uint64(many) {
					at := rdma.Remote{STag: rdma.STag(theirs.CounterSTag), TO: theirs.CounterTO + (n<<12+uint64(i)*8)%(1<<19)}
					if c.Post(rdma.WR{Op: rdma.OpFetchAdd, Remote: at, Done: done, ID: n}) == nil {
						posted++
					}
					if (i+w)%3 == 0 && n == uint64(i)%many {
						c.Abort(nil)
					}
				}
				if (i+w)%3 == 1 {
					_ = c.Close()
				}
				if (i+w)%3 == 2 {
					c.Abort(errors.New("enough"))
				}
				<-closed
				assert.Len(t, done, posted)
				_ = c.Close()
			}
		})
	}
	for range workers * rounds {
		end := receiveSoon(t, servers)
		receiveSoon(t, end.closed)
	}
	all.Wait()
	assert.Equal(t, regions, device.Stats().Regions)
}

// TestCountersUnderLoad checks that calls, atomic operations, questions and
// answers on one connection do not disturb one another, over iWARP with CRCs
// and Markers too.
func TestCountersUnderLoad(t *testing.T) {
	for name, cfg := range map[string]iwarp.Config{
		"plain":   {CRC: mpa.CRCOff},
		"CRC":     {CRC: mpa.CRCOn},
		"Markers": {CRC: mpa.CRCOn, Markers: true},
	} {
		t.Run(name, func(t *testing.T) {
			const workers, rounds = 4, 200
			theirs, servers := newCounterExtension(false, workers+1)
			ours, clients := newCounterExtension(true, 0)
			addr := startRDMAServer(t, iwarp.Open(cfg), &rpcrdma.Server{Handler: nullMux(), Extensions: theirs})
			c, err := rpcrdma.DialConn(t.Context(), iwarp.Open(cfg), addr, rpcrdma.ClientConnConfig{Extensions: ours})
			require.NoError(t, err)
			require.NoError(t, callNull(t.Context(), c))
			server, client := receiveSoon(t, servers), receiveSoon(t, clients)
			assert.Equal(t, rpcrdma.Extensions{Immediate: 16, Atomics: true, Delegation: true}, client.link.Extensions())
			var all sync.WaitGroup
			for w := range uint32(workers) {
				all.Go(func() {
					for range rounds {
						assert.NoError(t, callNull(t.Context(), client.link))
					}
				})
				all.Go(func() {
					done := make(completionChan, 1)
					for i := range uint64(rounds) {
						err := client.link.Atomic(rdma.OpFetchAdd, client.link.Counter(w+1), rdma.Atomic{Operand: 1, OperandMask: 0x8000000080000000}, done, i)
						if !assert.NoError(t, err) {
							return
						}
						assert.Equal(t, rdma.Completion{ID: i, Op: rdma.OpFetchAdd, Original: i}, <-done)
					}
				})
			}
			for i := range rounds {
				require.NoError(t, server.link.PostImmediate([8]byte{7: byte(i)}, nil, 0))
				assert.Equal(t, byte(i), receiveSoon(t, server.got)[7])
			}
			all.Wait()
			for n := range workers {
				word, err := rdma.Word(server.link.Counters(), 8*(n+1))
				require.NoError(t, err)
				assert.EqualValues(t, rounds, word.Load())
			}
			require.NoError(t, c.Close())
			receiveSoon(t, server.closed)
			receiveSoon(t, client.closed)
		})
	}
}

// BenchmarkFetchAdd measures the cost of a re-open of a cached file against the
// shortest possible call.
func BenchmarkFetchAdd(b *testing.B) {
	cfg := iwarp.Config{CRC: mpa.CRCOff}
	theirs, _ := newCounterExtension(false, 1<<16)
	ours, clients := newCounterExtension(true, 0)
	l, err := iwarp.Open(cfg).Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	s := &rpcrdma.Server{Handler: nullMux(), Extensions: theirs}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	c, err := rpcrdma.DialConn(b.Context(), iwarp.Open(cfg), l.Addr().String(), rpcrdma.ClientConnConfig{Extensions: ours})
	require.NoError(b, err)
	require.NoError(b, callNull(b.Context(), c))
	link := (<-clients).link
	b.Run("FetchAdd", func(b *testing.B) {
		done := make(completionChan, 1)
		b.ReportAllocs()
		for b.Loop() {
			_ = link.Atomic(rdma.OpFetchAdd, link.Counter(1), rdma.Atomic{Operand: 1, OperandMask: 0x8000000080000000}, done, 0)
			if c := <-done; c.Err != nil {
				b.Fatal(c.Err)
			}
		}
	})
	b.Run("NULL", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := callNull(b.Context(), c); err != nil {
				b.Fatal(err)
			}
		}
	})
	require.NoError(b, c.Close())
	require.NoError(b, s.Shutdown(b.Context()))
	require.NoError(b, <-served)
}
