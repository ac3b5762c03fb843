package rpcstats

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpctest"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// A usageServer counts calls of a program whose procedure 1 works on usage. It returns its first
// argument as status, after as many microseconds as its second argument, and has read its third
// argument's bytes and written its fourth's.
type usageServer struct {
	*Observer
	usage Usage
}

func newUsageServer() *usageServer {
	s := new(usageServer)
	m := &oncrpc.Mux{Log: discardLogger()}
	m.Register(rpctest.Program, 2, rpctest.HandlerFunc(func(_ context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
		status, delay := c.Args.Uint32(), c.Args.Uint32()
		time.Sleep(time.Duration(delay) * time.Microsecond)
		r.Work = oncrpc.Work{Subject: &s.usage, Read: uint64(c.Args.Uint32()), Written: uint64(c.Args.Uint32())}
		s.usage.CountData(c.Peer, r.Work.Read, r.Work.Written)
		s.usage.CountOperations(c.Peer, 2)
		r.Head = xdr.AppendUint32(r.Head, status)
		return nil
	}))
	s.Observer = NewObserver(m, Observed{Prog: rpctest.Program, Vers: 2, Procs: 2, HasStatus: func(uint32) bool { return true }})
	return s
}

// newPeer returns the peer of a new connection.
func newPeer(addrPort string) *oncrpc.Peer {
	return &oncrpc.Peer{Addr: netip.MustParseAddrPort(addrPort), Conn: new(oncrpc.Connection)}
}

func (s *usageServer) call(peer *oncrpc.Peer, args ...uint32) {
	msg := rpctest.NewCall(1, rpctest.Program, 2, 1, appendWords(args...)...)
	s.Serve(context.Background(), &oncrpc.Request{Msg: msg, MaxReply: 4096, Peer: peer}, new(oncrpc.Reply))
}

// TestUsage checks the counters of what calls work on, and of the clients that make them, over
// several connections.
func TestUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newUsageServer()
		a, again, b := newPeer("192.0.2.1:1000"), newPeer("[::ffff:192.0.2.1]:1002"), newPeer("[2001:db8::1]:1004")
		s.call(a, 0, 5, 4096, 0)
		s.call(again, 2, 60, 0, 100)
		time.Sleep(time.Minute)
		s.call(b, 2, 10_000_000, 1, 0)
		time.Sleep(3 * time.Second)

		var took [len(LatencyBounds) + 1]uint64
		took[0], took[4], took[len(LatencyBounds)] = 1, 1, 1
		assert.Equal(t, UsageStats{
			Calls: 3, Operations: 6, Read: 4097, Written: 100, Duration: 10*time.Second + 65*time.Microsecond,
			Took: took, Failed: []Failures{{Outcome{OutcomeStatus, 2}, 2}},
		}, s.usage.Stats())

		clients, forgotten := s.Clients()
		assert.Zero(t, forgotten)
		require.Len(t, clients, 2)
		assert.Equal(t, b.Addr.Addr(), clients[0].Addr, "the one for which the server works longest is first")
		assert.EqualValues(t, 1, clients[0].Calls)
		assert.Equal(t, 3*time.Second, clients[0].Idle)
		assert.Equal(t, a.Addr.Addr(), clients[1].Addr)
		assert.EqualValues(t, 2, clients[1].Calls)
		assert.EqualValues(t, 4096, clients[1].Read)
		assert.EqualValues(t, 100, clients[1].Written)
		assert.Equal(t, []Failures{{Outcome{OutcomeStatus, 2}, 1}}, clients[1].Failed)
		assert.Equal(t, 73*time.Second+60*time.Microsecond, clients[1].Idle.Truncate(time.Microsecond))
	})
}

// TestClientsBounded checks that the number of clients is bounded, that a group with many
// addresses displaces none of another group, and that a client which was displaced is counted
// when it calls again on the same connection.
func TestClientsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newUsageServer()
		quiet := newPeer("192.0.2.1:1000")
		s.call(quiet, 0, 0, 0, 0)
		list := func() map[netip.Addr]ClientStats {
			all, _ := s.Clients()
			m := make(map[netip.Addr]ClientStats)
			for _, c := range all {
				m[c.Addr] = c
			}
			return m
		}
		crowd := make([]*oncrpc.Peer, 2*maxClients)
		for i := range crowd {
			time.Sleep(2 * useGranularity)
			addr := netip.MustParseAddr("2001:db8::").As16()
			addr[14], addr[15] = byte(i>>8), byte(i)
			crowd[i] = newPeer(netip.AddrPortFrom(netip.AddrFrom16(addr), 1000).String())
			s.call(crowd[i], 0, 0, 0, 0)
		}
		_, forgotten := s.Clients()
		assert.Equal(t, maxClients+1, forgotten)
		assert.Len(t, list(), maxClients)
		assert.Contains(t, list(), quiet.Addr.Addr())
		assert.Contains(t, list(), crowd[len(crowd)-1].Addr.Addr())
		assert.NotContains(t, list(), crowd[0].Addr.Addr(), "the longest silent is displaced")
		time.Sleep(2 * useGranularity)
		s.call(crowd[0], 0, 0, 0, 0)
		assert.Contains(t, list(), crowd[0].Addr.Addr())
		assert.Len(t, list(), maxClients)
	})
}

// TestActiveClientsStay checks that too many active clients do not displace each other at each call,
// which would cost every call a search of the table, and that a group with many active addresses
// still makes room for another group.
func TestActiveClientsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newUsageServer()
		var peers []*oncrpc.Peer
		for i := range maxClients + 50 {
			peers = append(peers, newPeer(fmt.Sprintf("[2001:db8::%x]:1000", i)))
		}
		for range 3 {
			for _, p := range peers {
				s.call(p, 0, 0, 0, 0)
			}
			time.Sleep(2 * useGranularity)
		}
		all, forgotten := s.Clients()
		assert.Len(t, all, maxClients)
		assert.Equal(t, 50, forgotten)
		for _, c := range all {
			require.EqualValues(t, 3, c.Calls)
		}
		late := peers[maxClients]
		now := time.Since(s.since)
		assert.Nil(t, s.clients.clientOf(late, now))
		assert.Zero(t, testing.AllocsPerRun(10, func() { s.clients.clientOf(late, now) }))

		other := newPeer("192.0.2.1:1000")
		s.call(other, 0, 0, 0, 0)
		assert.NotNil(t, s.clients.clientOf(other, now))
		time.Sleep(clientActivity)
		s.call(late, 0, 0, 0, 0)
		assert.NotNil(t, s.clients.clientOf(late, time.Since(s.since)), "the others are silent")
	})
}

// TestClientsOfDatagrams checks that datagrams, whose addresses can be forged, are counted only
// for known clients.
func TestClientsOfDatagrams(t *testing.T) {
	s := newUsageServer()
	s.call(newPeer("192.0.2.1:1000"), 0, 0, 0, 0)
	s.call(&oncrpc.Peer{Addr: netip.MustParseAddrPort("192.0.2.1:700")}, 0, 0, 0, 0)
	s.call(&oncrpc.Peer{Addr: netip.MustParseAddrPort("192.0.2.2:700")}, 0, 0, 0, 0)
	s.call(nil, 0, 0, 0, 0) // from this process
	all, _ := s.Clients()
	require.Len(t, all, 1)
	assert.EqualValues(t, 2, all[0].Calls)
	assert.EqualValues(t, 4, s.usage.Stats().Calls)
}

// TestBusyShard checks that a call is counted elsewhere while the lock of its peer's shard is held.
func TestBusyShard(t *testing.T) {
	s, peer := newUsageServer(), newPeer("192.0.2.1:1000")
	busy := &shardLocks[shardOf(peer)]
	busy.Lock()
	s.call(peer, 0, 0, 0, 0)
	busy.Unlock()
	assert.EqualValues(t, 1, s.usage.Stats().Calls)
}

// TestConcurrentCalls checks that no call is lost if more calls than there are shards run at once
// on one connection, while the counters are read.
func TestConcurrentCalls(t *testing.T) {
	const callers, calls = 2 * shardCount, 100
	s, peer := newUsageServer(), newPeer("192.0.2.1:1000")
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range calls {
				s.call(peer, 2, 0, 1, 0)
				s.usage.Stats()
			}
		})
	}
	all.Wait()
	failed := []Failures{{Outcome{OutcomeStatus, 2}, callers * calls}}
	usage, procs := s.usage.Stats(), s.Observer.Stats()
	clients, _ := s.Clients()
	require.Len(t, procs, 1)
	require.Len(t, clients, 1)
	assert.EqualValues(t, callers*calls, usage.Calls)
	assert.EqualValues(t, callers*calls, usage.Read)
	assert.Equal(t, failed, usage.Failed)
	assert.EqualValues(t, callers*calls, procs[0].Calls)
	assert.Equal(t, failed, procs[0].Failed)
	assert.Equal(t, usage.Took, procs[0].Took)
	assert.Equal(t, usage.Took, clients[0].Took)
	assert.EqualValues(t, callers*calls, clients[0].Read)
}

// TestUsageAllocatesNothing checks that counting a call allocates no memory.
func TestUsageAllocatesNothing(t *testing.T) {
	u, peer := new(Usage), newPeer("192.0.2.1:1000")
	o := NewObserver(workService{u}, Observed{Prog: rpctest.Program, Vers: 2, Procs: 2})
	req, rep := &oncrpc.Request{Msg: rpctest.NewCall(1, rpctest.Program, 2, 1), Peer: peer}, new(oncrpc.Reply)
	o.Serve(context.Background(), req, rep)
	assert.Zero(t, testing.AllocsPerRun(10, func() { o.Serve(context.Background(), req, rep) }))
}

// A workService answers nothing and reports work on a Usage.
type workService struct{ usage *Usage }

func (s workService) Serve(_ context.Context, _ *oncrpc.Request, rep *oncrpc.Reply) bool {
	rep.Work = oncrpc.Work{Subject: s.usage, Read: 1, Written: 1}
	return false
}
