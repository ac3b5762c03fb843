package rpcstats

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpcmsg"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpctest"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// statusMux is a program of two procedures. Procedure 1 returns its first
// argument as status, after as many microseconds as its second argument.
// Procedure 2 fails with its argument as auth_stat.
func statusMux() *oncrpc.Mux {
	m := &oncrpc.Mux{Log: discardLogger()}
	m.Register(rpctest.Program, 2, rpctest.HandlerFunc(func(_ context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
		status := c.Args.Uint32()
		switch c.Proc {
		case 1:
			time.Sleep(time.Duration(c.Args.Uint32()) * time.Microsecond)
			r.Head = xdr.AppendUint32(r.Head, status)
			return c.Args.Done()
		case 2:
			return rpcmsg.AuthError(status)
		case 3:
			return errors.New("no idea")
		}
		return oncrpc.ErrProcUnavail
	}))
	return m
}

// newObserver returns an Observer of the first four procedures of that program, and
// a function that serves a call, each on a connection of its own.
func newObserver(t *testing.T) (o *Observer, serve func(msg []byte) *oncrpc.Reply) {
	o = NewObserver(statusMux(), Observed{
		Prog: rpctest.Program, Vers: 2, Procs: 4, HasStatus: func(proc uint32) bool { return proc != 0 },
	})
	port := uint16(1000)
	return o, func(msg []byte) *oncrpc.Reply {
		rep := new(oncrpc.Reply)
		peer := &oncrpc.Peer{Addr: netip.AddrPortFrom(netip.Addr{}, port)}
		port += 2
		o.Serve(t.Context(), &oncrpc.Request{Msg: msg, MaxReply: 4096, Peer: peer}, rep)
		return rep
	}
}

func appendWords(w ...uint32) (b []byte) {
	for _, v := range w {
		b = xdr.AppendUint32(b, v)
	}
	return b
}

func TestObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, serve := newObserver(t)
		assert.Empty(t, o.Stats())
		for _, us := range []uint32{0, 5, 6, 60, 10_000_000} {
			serve(rpctest.NewCall(1, rpctest.Program, 2, 1, appendWords(0, us)...))
		}
		for _, status := range []uint32{2, 70, 2} {
			serve(rpctest.NewCall(1, rpctest.Program, 2, 1, appendWords(status, 0)...))
		}
		stats := o.Stats()
		require.Len(t, stats, 1)
		s := stats[0]
		assert.Equal(t, [3]uint32{rpctest.Program, 2, 1}, [3]uint32{s.Prog, s.Vers, s.Proc})
		assert.EqualValues(t, 8, s.Calls)
		assert.EqualValues(t, 8*(10+2)*4, s.In)
		assert.EqualValues(t, 8*(rpcmsg.AcceptedLen+4), s.Out)
		assert.Equal(t, 10*time.Second+71*time.Microsecond, s.Duration)
		want := [len(LatencyBounds) + 1]uint64{0: 5, 1: 1, 4: 1, len(LatencyBounds): 1}
		assert.Equal(t, want, s.Took)
		assert.Equal(t, []Failures{{Outcome{OutcomeStatus, 2}, 2}, {Outcome{OutcomeStatus, 70}, 1}}, s.Failed)
	})
}

// TestObserverOutcomes checks that every layer's reason for a refusal is
// counted, by its name in RFC 5531 if any.
func TestObserverOutcomes(t *testing.T) {
	o, serve := newObserver(t)
	badVersion := rpctest.NewCall(1, rpctest.Program, 2, 1, appendWords(0, 0)...)
	badVersion[11] = 3
	for _, msg := range [][]byte{
		rpctest.NewCall(1, rpctest.Program, 2, 2, appendWords(uint32(rpcmsg.AuthTooWeak))...), rpctest.NewCall(1, rpctest.Program, 2, 1), rpctest.NewCall(1, rpctest.Program, 2, 3, appendWords(0)...),
		rpctest.NewCall(1, rpctest.Program, 9, 1), rpctest.NewCall(1, rpctest.Program, 2, 4, appendWords(0)...), rpctest.NewCall(1, rpctest.NFS, 3, 1),
		appendWords(1, rpcmsg.MsgCall), badVersion, // not recognizable as calls of RPC version 2
	} {
		serve(msg)
	}
	got := make(map[string]uint64)
	var calls uint64
	for _, s := range o.Stats() {
		calls += s.Calls
		for _, f := range s.Failed {
			got[f.String()] += f.Count
		}
	}
	assert.Equal(t, map[string]uint64{
		"AUTH_TOOWEAK": 1, "GARBAGE_ARGS": 1, "SYSTEM_ERR": 1,
		"PROG_MISMATCH": 1, "PROC_UNAVAIL": 1, "PROG_UNAVAIL": 1,
	}, got)
	assert.EqualValues(t, 6, calls)
	assert.Zero(t, o.Stats()[len(o.Stats())-1].Prog, "those that are not known stand last, as one")
	assert.Equal(t, Outcome{OutcomeRPCVersion, 0}, OutcomeOf(rpcmsg.AppendRPCMismatch(nil, 1), true))
	for o, name := range map[Outcome]string{
		{}: "SUCCESS", {OutcomeRPCVersion, 0}: "RPC_MISMATCH", {OutcomeAccept, 9}: "accept_stat 9",
		{OutcomeStatus, 2}: "status 2", {OutcomeOther, 0}: "other",
	} {
		assert.Equal(t, name, o.String())
	}
}

// TestObserverBounded checks that the number of separate outcomes is bounded,
// and that none is lost.
func TestObserverBounded(t *testing.T) {
	o, serve := newObserver(t)
	for status := range uint32(2 * maxOutcomes) {
		serve(rpctest.NewCall(1, rpctest.Program, 2, 1, appendWords(status, 0)...))
	}
	failed := o.Stats()[0].Failed
	require.Len(t, failed, maxOutcomes+1)
	assert.Equal(t, Failures{Outcome{OutcomeOther, 0}, maxOutcomes - 1}, failed[maxOutcomes])
}

// TestShares checks that connections have different counters, also if their ports have one parity.
func TestShares(t *testing.T) {
	seen := make(map[int]bool)
	for port := uint16(40000); port < 40000+2*shardCount; port += 2 {
		seen[shardOf(&oncrpc.Peer{Addr: netip.AddrPortFrom(netip.Addr{}, port)})] = true
	}
	assert.Len(t, seen, shardCount)
	assert.True(t, seen[shardOf(nil)])
}

func TestObserverResumes(t *testing.T) {
	assert.True(t, oncrpc.Resumes(NewObserver(resumableService{new(oncrpc.Mux)})))
	assert.False(t, oncrpc.Resumes(NewObserver(new(oncrpc.Mux))))
}

// A resumableService is a Service whose calls may be repeated.
type resumableService struct{ oncrpc.Service }

func (resumableService) Resumes() bool { return true }

// instantService answers at once, and reports work on a Usage.
type instantService struct {
	reply []byte
	usage *Usage
}

func (s instantService) Serve(_ context.Context, _ *oncrpc.Request, rep *oncrpc.Reply) bool {
	rep.Head = append(rep.Head, s.reply...)
	rep.Work.Subject = s.usage
	return true
}

// BenchmarkObserver measures the cost of an Observer that counts an instant Service's calls by
// procedure, client and Usage.
func BenchmarkObserver(b *testing.B) {
	next := instantService{appendWords(1, rpcmsg.MsgReply, rpcmsg.MsgAccepted, 0, 0, rpcmsg.Success, 0, 0), new(Usage)}
	program := Observed{Prog: rpctest.Program, Vers: 2, Procs: 22, HasStatus: func(proc uint32) bool { return proc != 0 }}
	for name, s := range map[string]oncrpc.Service{"without": next, "with": NewObserver(next, program)} {
		var port atomic.Uint32
		bench := func(next func() bool) {
			peer := &oncrpc.Peer{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, 1}), uint16(port.Add(2))), Conn: new(oncrpc.Connection)}
			req := &oncrpc.Request{Msg: rpctest.NewCall(1, rpctest.Program, 2, 6, appendWords(0, 0)...), Peer: peer}
			rep := &oncrpc.Reply{Head: make([]byte, 0, 100)}
			for next() {
				rep.Head = rep.Head[:0]
				s.Serve(context.Background(), req, rep)
			}
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			bench(b.Loop)
		})
		b.Run(name+" on all processors", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) { bench(pb.Next) })
		})
	}
}
