package client

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/delegation"
	"github.com/nfsrdma/nfsrdma/oncrpc"
	"github.com/nfsrdma/nfsrdma/oncrpc/xdr"
)

// A fakeCountingCaller is a Caller that counts calls.
type fakeCountingCaller int

func (n *fakeCountingCaller) Call(context.Context, *oncrpc.Exchange) error { *n++; return nil }

// newCountingCaller returns a Caller for s, and the call count for each of its
// lines.
func newCountingCaller(s *Set, lines int) (*Caller, []*fakeCountingCaller) {
	callers, counts := make([]oncrpc.Caller, lines), make([]*fakeCountingCaller, lines)
	for i := range lines {
		counts[i] = new(fakeCountingCaller)
		callers[i] = counts[i]
	}
	return s.Caller(callers...), counts
}

func takeCounts(counts []*fakeCountingCaller) (n []int) {
	for _, c := range counts {
		n = append(n, int(*c))
		*c = 0
	}
	return n
}

// TestCaller checks that a call that changes an object uses the object's line,
// as its ACQUIRE does.
func TestCaller(t *testing.T) {
	runLines(t, 3, func(t *testing.T, r *testClient) {
		c, counts := newCountingCaller(r.Set, 3)
		call := func(prog, vers, proc uint32, args []byte) []int {
			for range 3 {
				require.NoError(t, c.Call(t.Context(), &oncrpc.Exchange{Prog: prog, Vers: vers, Proc: proc, Args: args}))
			}
			return takeCounts(counts)
		}
		inTurn := []int{1, 1, 1}
		met := make(map[int]bool)
		for _, fh := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			args, i := xdr.AppendOpaque(nil, []byte(fh)), lineIndex([]byte(fh), 3)
			met[i] = true
			own := make([]int, 3)
			own[i] = 3
			for proc := range uint32(22) {
				want := inTurn
				if proc == 2 || proc >= 7 && proc <= 15 {
					want = own
				}
				assert.Equal(t, want, call(100003, 3, proc, args), "%s, procedure %d", fh, proc)
			}
			assert.Equal(t, own, call(100227, 3, 2, args), "SETACL")
			assert.Equal(t, inTurn, call(100227, 3, 1, args), "GETACL")
			assert.Equal(t, inTurn, call(100005, 3, 7, args))

			o := r.heldObject(fh)
			assert.Same(t, r.Set.attachments[i], o.attachment)
		}
		assert.Len(t, met, 3, "all lines are used")
		for _, args := range [][]byte{nil, {0, 0}, xdr.AppendOpaque(nil, make([]byte, delegation.MaxHandle+1))} {
			assert.Equal(t, inTurn, call(100003, 3, 7, args), "no handle")
		}

		// The handle's connection is closed, so any line will do.
		args := xdr.AppendOpaque(nil, []byte("a"))
		r.conns[lineIndex([]byte("a"), 3)].Abort(context.Canceled)
		r.takeDropped()
		assert.Equal(t, inTurn, call(100003, 3, 7, args))
	})
	var s *Set
	c, counts := newCountingCaller(s, 2)
	for range 4 {
		require.NoError(t, c.Call(t.Context(), &oncrpc.Exchange{Prog: 100003, Vers: 3, Proc: 7, Args: xdr.AppendOpaque(nil, []byte("a"))}))
	}
	assert.Equal(t, []int{2, 2}, takeCounts(counts))
}

// TestCallerAllocs checks that routing allocates nothing.
func TestCallerAllocs(t *testing.T) {
	c, _ := newCountingCaller(nil, 2)
	c.set = new(Set)
	c.set.attachments = []*Attachment{{set: c.set}, {set: c.set}}
	x := &oncrpc.Exchange{Prog: 100003, Vers: 3, Proc: 7, Args: xdr.AppendOpaque(nil, []byte("a"))}
	assert.Zero(t, testing.AllocsPerRun(100, func() { _ = c.Call(context.Background(), x) }))
}
