package delegation

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const slots = 1 << 20

// ok is the reply that brings a grant.
func ok(slot, generation uint32) *AcquireRes {
	return &AcquireRes{Slot: slot, Generation: generation, Types: FileData, LeaseMS: uint32(lease.Milliseconds())}
}

func recallOf(slot, generation uint32) [8]byte {
	return Immediate{KindRecall, slot, generation}.Octets()
}

func kind2(slot, generation uint32) []Immediate { return []Immediate{{KindReturned, slot, generation}} }

// holder returns a Holder whose lease is trusted from 0 on.
func holder(t *testing.T) *Holder {
	h := NewHolder(slots)
	var op Op
	a, renew := h.Ask(&op, 0)
	require.True(t, renew)
	assert.Equal(t, Op{Kind: OpRenew, Word: LeaseWord, seq: 1}, op)
	h.Answered(&op, 0, 0)
	h.NotGranted(a)
	return h
}

// hold has h hold what a grant brings.
func hold(t *testing.T, h *Holder, slot, generation uint32, now time.Duration) *Delegation {
	t.Helper()
	var op Op
	a, renew := h.Ask(&op, now)
	if renew {
		h.Answered(&op, 0, now)
	}
	d, fx, err := h.Granted(a, ok(slot, generation))
	require.NoError(t, err)
	require.Empty(t, fx)
	require.NotNil(t, d)
	return d
}

// Rules d, e and f along the life of a delegation.
func TestHolder(t *testing.T) {
	h := holder(t)
	d := hold(t, h, 7, 3, 0)
	assert.True(t, h.Trusts(d, 0))
	assert.True(t, h.Trusts(d, trust(lease)-1))
	assert.False(t, h.Trusts(d, trust(lease)), "rule f")

	now := time.Second
	var open, shut, look Op
	assert.Equal(t, Serve, h.Open(d, &open, now), "it is open")
	assert.False(t, h.Close(d, &shut, now))
	require.True(t, h.Close(d, &shut, now))
	assert.Equal(t, OpClose, shut.Kind)
	assert.EqualValues(t, 7, shut.Word)
	assert.False(t, h.Trusts(d, now), "rule d")

	require.Equal(t, Post, h.Check(d, &look, now))
	assert.Equal(t, OpValidate, look.Kind)
	require.Equal(t, Post, h.Open(d, &open, now))
	assert.Equal(t, OpOpen, open.Kind)
	var second Op
	require.Equal(t, Post, h.Open(d, &second, now))
	assert.Equal(t, OpValidate, second.Kind, "one is counted for all uses")
	for _, op := range []*Op{&shut, &look} {
		v, fx := h.Answered(op, uint64(MakeWord(3, 1)), now)
		assert.Empty(t, fx)
		assert.Equal(t, op == &look, v == Serve)
		assert.False(t, h.Trusts(d, now))
	}
	for _, op := range []*Op{&open, &second} {
		v, _ := h.Answered(op, uint64(MakeWord(3, 0)), now)
		assert.Equal(t, Serve, v)
		assert.True(t, h.Trusts(d, now))
	}

	// Rule e: what is under way is waited for, and that all is dropped.
	later := trust(lease)
	require.Equal(t, Post, h.Check(d, &look, later))
	fx, err := h.Immediate(recallOf(7, 3))
	require.NoError(t, err)
	assert.Equal(t, Posts{Drops: []*Delegation{d}}, fx)
	assert.True(t, h.Recalled(d))
	assert.False(t, h.Trusts(d, now))
	assert.Equal(t, Void, h.Open(d, &open, now))
	assert.Equal(t, Void, h.Check(d, &open, now))
	for range 3 {
		assert.False(t, h.Close(d, &shut, now), "of an old generation")
	}
	_, err = h.Immediate(recallOf(7, 3))
	require.ErrorIs(t, err, ErrTwice)
	assert.Empty(t, h.Dropped(d))
	assert.Empty(t, h.Dropped(d))
	v, fx := h.Answered(&look, uint64(MakeWord(3, 1)), later)
	assert.Equal(t, Void, v, "rule a: kind 1 has come")
	assert.Equal(t, Posts{Returns: kind2(7, 3)}, fx)
	assert.Empty(t, h.slots)
	_, due := h.RenewDue()
	assert.False(t, due, "nothing is held")
}

// Rule a: another generation, or an answer that comes too late.
func TestAnswers(t *testing.T) {
	h := holder(t)
	d := hold(t, h, 7, 3, 0)
	var op Op
	h.Close(d, &op, 0)
	h.Answered(&op, uint64(MakeWord(3, 1)), 0)

	require.Equal(t, Post, h.Open(d, &op, 0))
	renew(t, h, lease-1, lease-1)
	v, _ := h.Answered(&op, uint64(MakeWord(3, 0)), lease)
	assert.Equal(t, Doubt, v)
	assert.False(t, h.Trusts(d, lease))
	require.Equal(t, Post, h.Check(d, &op, lease))
	v, _ = h.Answered(&op, uint64(MakeWord(3, 1)), 2*lease-1)
	assert.Equal(t, Doubt, v, "rule f")
	require.Equal(t, Post, h.Check(d, &op, 2*lease))
	v, fx := h.Answered(&op, uint64(MakeWord(4, 1)), 2*lease)
	assert.Equal(t, Void, v)
	assert.Equal(t, Posts{Drops: []*Delegation{d}}, fx)
	assert.False(t, h.Recalled(d))
	assert.Empty(t, h.Dropped(d), "there is nothing to return")

	// The server recalls it nevertheless: it is at an end, and not known.
	fx, err := h.Immediate(recallOf(7, 3))
	require.NoError(t, err)
	assert.Equal(t, Posts{Returns: kind2(7, 3)}, fx)
}

// renew adds to the word of the lease at one time, and has the answer at another.
func renew(t *testing.T, h *Holder, at, answered time.Duration) {
	t.Helper()
	var op Op
	require.True(t, h.Renew(&op, at))
	v, fx := h.Answered(&op, 0, answered)
	assert.Equal(t, Doubt, v)
	assert.Empty(t, fx)
}

// Rule f: trust is counted from when the add was sent. When it has been in doubt, a
// look is needed behind the add that ends that.
func TestRenewal(t *testing.T) {
	h := holder(t)
	d := hold(t, h, 7, 3, 0)
	due, _ := h.RenewDue()
	assert.Equal(t, lease/3, due)
	var op Op
	assert.False(t, h.Renew(&op, due-1))
	renew(t, h, due, trust(lease)-1)
	assert.True(t, h.Trusts(d, due+trust(lease)-1))
	assert.False(t, h.Trusts(d, due+trust(lease)))

	var asked, renewal Op
	a, _ := h.Ask(&asked, due+trust(lease))
	require.False(t, h.Renew(&renewal, due+trust(lease)), "Ask did")
	h.Answered(&asked, 0, due+trust(lease))
	assert.False(t, h.Trusts(d, due+trust(lease)), "the server may have ended it")
	require.Equal(t, Post, h.Open(d, &op, due+trust(lease)))
	assert.Equal(t, OpValidate, op.Kind)
	v, _ := h.Answered(&op, uint64(MakeWord(3, 1)), due+trust(lease))
	assert.Equal(t, Serve, v)
	assert.True(t, h.Trusts(d, due+trust(lease)))

	// A grant that was asked for before is in doubt too; one asked for since is not.
	late := 3 * lease
	renew(t, h, late, late)
	e, _, err := h.Granted(a, ok(8, 1))
	require.NoError(t, err)
	assert.False(t, h.Trusts(e, late))
	assert.True(t, h.Trusts(hold(t, h, 9, 1, late), late))

	// Adds that nobody answers do not pile up.
	n := 0
	for now := late; now < late+100*lease; now += lease {
		if h.Renew(new(Op), now+lease) {
			n++
		}
	}
	assert.Equal(t, maxRenewals, n)
}

// The lease that counts is the shortest that came with a grant.
func TestShortestLease(t *testing.T) {
	h := holder(t)
	d := hold(t, h, 7, 3, 0)
	var op Op
	a, _ := h.Ask(&op, 0)
	res := ok(8, 1)
	res.LeaseMS = 1000
	_, _, err := h.Granted(a, res)
	require.NoError(t, err)
	assert.True(t, h.Trusts(d, trust(time.Second)-1))
	assert.False(t, h.Trusts(d, trust(time.Second)))
}

// Rule b: what is recalled before it is known is answered at once, and void when it
// comes.
func TestEarlyRecall(t *testing.T) {
	h := holder(t)
	var op Op
	a, _ := h.Ask(&op, 0)
	b, _ := h.Ask(&op, 0)
	fx, err := h.Immediate(recallOf(7, 3))
	require.NoError(t, err)
	assert.Equal(t, Posts{Returns: kind2(7, 3)}, fx)
	d, _, err := h.Granted(b, ok(7, 5))
	require.NoError(t, err)
	require.NotNil(t, d, "another generation")
	void, _, err := h.Granted(a, ok(7, 3))
	require.NoError(t, err)
	assert.Nil(t, void)
	assert.True(t, h.Trusts(d, 0))
	assert.Empty(t, h.early)

	// Too many to be kept in mind: all that has been asked for is void.
	a, _ = h.Ask(&op, 0)
	for i := range uint32(maxEarly + 1) {
		_, err := h.Immediate(recallOf(100+i, 1))
		require.NoError(t, err)
	}
	assert.LessOrEqual(t, len(h.early), maxEarly)
	b, _ = h.Ask(&op, 0)
	void, _, err = h.Granted(a, ok(100, 1))
	require.NoError(t, err)
	assert.Nil(t, void)
	d, _, err = h.Granted(b, ok(99, 1))
	require.NoError(t, err)
	assert.NotNil(t, d)
	assert.Empty(t, h.early, "nothing is asked for any more")
}

// A slot of which the client still has an old delegation was unused, and is
// another's now.
func TestSlotUsedAgain(t *testing.T) {
	h := holder(t)
	old := hold(t, h, 7, 3, 0)
	var shut, op Op
	require.True(t, h.Close(old, &shut, 0))
	h.Answered(&shut, uint64(MakeWord(3, 1)), 0)
	require.Equal(t, Post, h.Open(old, &op, 0))
	var ask Op
	a, _ := h.Ask(&ask, 0)
	d, fx, err := h.Granted(a, ok(7, 5))
	require.NoError(t, err)
	assert.Equal(t, []*Delegation{old}, fx.Drops)
	v, fx := h.Answered(&op, uint64(MakeWord(5, 1)), 0)
	assert.Equal(t, Void, v)
	assert.Empty(t, fx)
	assert.True(t, h.Trusts(d, 0))
	assert.False(t, h.Close(old, &shut, 0), "it would be a close of the new one")

	// The same when the recall of the new one comes first; an operation for the
	// old one is waited for.
	require.True(t, h.Close(d, &shut, 0))
	a, _ = h.Ask(&ask, 0)
	fx, err = h.Immediate(recallOf(7, 7))
	require.NoError(t, err)
	assert.Equal(t, Posts{Drops: []*Delegation{d}}, fx)
	_, fx = h.Answered(&shut, uint64(MakeWord(5, 1)), 0)
	assert.Equal(t, Posts{Returns: kind2(7, 7)}, fx)
	void, _, err := h.Granted(a, ok(7, 7))
	require.NoError(t, err)
	assert.Nil(t, void)
}

func TestHolderErrors(t *testing.T) {
	for name, do := range map[string]func(h *Holder, a Asking) error{
		"recall of the lease's word": func(h *Holder, _ Asking) error { _, err := h.Immediate(recallOf(0, 0)); return err },
		"recall of no slot":          func(h *Holder, _ Asking) error { _, err := h.Immediate(recallOf(slots, 0)); return err },
		"grant of no slot":           func(h *Holder, a Asking) error { _, _, err := h.Granted(a, ok(slots, 0)); return err },
		"grant of the lease's word":  func(h *Holder, a Asking) error { _, _, err := h.Granted(a, ok(0, 0)); return err },
		"grant of what is held":      func(h *Holder, a Asking) error { _, _, err := h.Granted(a, ok(1, 1)); return err },
		"grant before the return": func(h *Holder, a Asking) error {
			_, err := h.Immediate(recallOf(1, 1))
			if err == nil {
				_, _, err = h.Granted(a, ok(1, 3))
			}
			return err
		},
		"another kind": func(h *Holder, _ Asking) error { _, err := h.Immediate(returned(Grant{1, 1})); return err },
	} {
		t.Run(name, func(t *testing.T) {
			h := holder(t)
			hold(t, h, 1, 1, 0)
			a, _ := h.Ask(new(Op), 0)
			assert.Error(t, do(h, a))
		})
	}
}

// The end of a connection ends all, whatever is under way.
func TestDisconnect(t *testing.T) {
	h := holder(t)
	held, asked := hold(t, h, 1, 1, 0), hold(t, h, 2, 1, 0)
	var op Op
	require.True(t, h.Close(held, &op, 0))
	_, err := h.Immediate(recallOf(2, 1))
	require.NoError(t, err)
	a, _ := h.Ask(new(Op), 0)
	fx := h.Disconnect()
	assert.ElementsMatch(t, []*Delegation{held, asked}, fx.Drops)
	assert.Empty(t, fx.Returns)
	assert.Empty(t, h.Dropped(asked))
	v, fx := h.Answered(&op, uint64(MakeWord(1, 1)), 0)
	assert.Equal(t, Void, v)
	assert.Empty(t, fx)
	d, fx, err := h.Granted(a, ok(3, 1))
	assert.Nil(t, d)
	assert.Empty(t, fx)
	require.NoError(t, err)
	fx, err = h.Immediate(recallOf(3, 1))
	assert.Empty(t, fx)
	require.NoError(t, err)
	assert.False(t, h.Renew(&op, lease))
	assert.False(t, h.Valid(held))
}

// Rule c.
func TestMarks(t *testing.T) {
	h := holder(t)
	d := hold(t, h, 1, 1, 0)
	var own Changes
	m, keep := h.Mark(d, &own)
	require.True(t, keep)
	before, keep := h.Mark(nil, &own)
	require.True(t, keep)
	assert.True(t, h.Keeps(m))
	own.Begin()
	assert.False(t, h.Keeps(m))
	assert.False(t, h.Keeps(before))
	_, keep = h.Mark(d, &own)
	assert.False(t, keep)
	own.End()
	assert.False(t, h.Keeps(m))
	m, keep = h.Mark(d, &own)
	require.True(t, keep)
	before, _ = h.Mark(nil, &own)
	_, err := h.Immediate(recallOf(1, 1))
	require.NoError(t, err)
	assert.False(t, h.Keeps(m))
	assert.True(t, h.Keeps(before))
	_, keep = h.Mark(d, &own)
	assert.False(t, keep)
}

func TestUnchanged(t *testing.T) {
	st := Stamp{Size: 1, MTime: 2, CTime: 3_000_000_000}
	over := st.CTime + int64(clockStep)
	assert.True(t, Unchanged(st, st, over))
	assert.False(t, Unchanged(st, st, over-1), "within the step of the clock")
	assert.False(t, Unchanged(st, st, 0), "nothing is known of the clock")
	for _, other := range []Stamp{{2, 2, st.CTime}, {1, 3, st.CTime}, {1, 2, st.CTime - 1}} {
		assert.False(t, Unchanged(other, st, over), other)
	}
}

func TestServerClock(t *testing.T) {
	var c ServerClock
	assert.Zero(t, c.Reads(time.Hour))
	const stamp = 1_700_000_000_000_000_000
	c.Saw(stamp, time.Hour)
	assert.EqualValues(t, stamp, c.Reads(time.Hour))
	c.Saw(stamp-5, time.Hour)
	assert.EqualValues(t, stamp, c.Reads(time.Hour), "of an older file")
	assert.EqualValues(t, stamp+time.Second-time.Millisecond, c.Reads(time.Hour+time.Second), "a clock may be slow")
	c.Saw(stamp+int64(time.Second), time.Hour+time.Second)
	assert.EqualValues(t, stamp+time.Second, c.Reads(time.Hour+time.Second))
}

// What is asked for each thing that is served costs nothing to speak of.
func TestTrustsDoesNotAllocate(t *testing.T) {
	h := holder(t)
	d := hold(t, h, 1, 1, 0)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if !h.Trusts(d, 0) {
			t.Error("it is held")
		}
	}))
	// Nor does a use that needs an atomic operation.
	var op Op
	h.Close(d, &op, 0)
	h.Answered(&op, uint64(MakeWord(1, 1)), 0)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		h.Open(d, &op, 0)
		v, _ := h.Answered(&op, uint64(MakeWord(1, 0)), 0)
		if v != Serve || !h.Close(d, &op, 0) {
			t.Error("it is open")
		}
		h.Answered(&op, uint64(MakeWord(1, 1)), 0)
	}))
}

func BenchmarkTrusts(b *testing.B) {
	h := NewHolder(2)
	a, _ := h.Ask(new(Op), 0)
	d, _, err := h.Granted(a, ok(1, 1))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		h.Trusts(d, 0)
	}
}
