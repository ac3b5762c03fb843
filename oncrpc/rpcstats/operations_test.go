package rpcstats

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/rpctest"
)

// TestOperations checks the counters of operations, known and unknown, and that
// counting allocates nothing.
func TestOperations(t *testing.T) {
	o := NewOperations(4)
	assert.Empty(t, o.Stats())
	for _, c := range [][2]uint32{{3, 0}, {3, 70}, {3, 2}, {3, 70}, {0, 0}, {4, 0}, {10044, 10044}} {
		o.Count(c[0], c[1])
	}
	assert.Equal(t, []OperationStats{
		{0, 1, nil},
		{3, 4, []Failures{{Outcome{OutcomeStatus, 2}, 1}, {Outcome{OutcomeStatus, 70}, 2}}},
		{4, 2, []Failures{{Outcome{OutcomeStatus, 10044}, 1}}},
	}, o.Stats())
	assert.Zero(t, testing.AllocsPerRun(10, func() { o.Count(3, 70) }))
}

// TestObserverProcOf checks that calls of one procedure are counted as others,
// and that a procedure which does not exist is not.
func TestObserverProcOf(t *testing.T) {
	o := NewObserver(statusMux(), Observed{
		Prog: rpctest.Program, Vers: 2, Procs: 8,
		HasStatus: func(proc uint32) bool { return proc == 7 },
		ProcOf: func(proc uint32, msg []byte) uint32 {
			if proc != 1 {
				return proc
			}
			return uint32(msg[len(msg)-1])
		},
	})
	for _, as := range []uint32{7, 7, 5, 200} {
		o.Serve(t.Context(), &oncrpc.Request{Msg: rpctest.NewCall(1, rpctest.Program, 2, 1, appendWords(70, as)...), MaxReply: 4096, Peer: new(oncrpc.Peer)}, new(oncrpc.Reply))
	}
	stats := o.Stats()
	if assert.Len(t, stats, 3) {
		assert.EqualValues(t, 5, stats[0].Proc)
		assert.Empty(t, stats[0].Failed)
		assert.EqualValues(t, 7, stats[1].Proc)
		assert.Equal(t, []Failures{{Outcome{OutcomeStatus, 70}, 2}}, stats[1].Failed)
		assert.Zero(t, stats[2].Prog)
		assert.EqualValues(t, 1, stats[2].Calls)
	}
}
